# pglogical writes the tables of a subscriber by heap's functions, past their
# access method (with zheap tables its worker crashed, and the server with it):
# that is refused.  Zheap tables may be in replication sets.  A module made here has its name and the functions by which
# it is known; pglogical itself is tried instead if it is installed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('pglogical', allows_streaming => 'logical', conf => "autovacuum = off\nmax_worker_processes = 20\n");
my $folder = $node->config_data('--pkglibdir');
my $real = -e "$folder/pglogical.so";
plan skip_all => "$folder is not writable" unless $real || -w $folder;

my $dir = $node->basedir;
END { unlink "$folder/pglogical.so" if $folder && !$real; }
put("$dir/pglogical.c", q{
#include "postgres.h"
#include "access/table.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(pglogical_replication_set_add_table);
PG_FUNCTION_INFO_V1(pglogical_replication_set_add_all_tables);
PG_FUNCTION_INFO_V1(apply);
extern PGDLLEXPORT void pglogical_apply_main(Datum arg);
extern void _PG_init(void);
static bool use_spi = false;

void
_PG_init(void)
{
	DefineCustomBoolVariable("pglogical.use_spi", "", NULL, &use_spi, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

Datum
pglogical_replication_set_add_table(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(true);
}

Datum
pglogical_replication_set_add_all_tables(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(true);
}

/* a worker opens the table, as if to write it */
void
pglogical_apply_main(Datum arg)
{
	Oid			ids[2];

	memcpy(ids, MyBgworkerEntry->bgw_extra, sizeof(ids));
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(ids[0], InvalidOid, 0);
	StartTransactionCommand();
	elog(LOG, "worker opened %s",
		 RelationGetRelationName(table_open(ids[1], RowExclusiveLock)));
	CommitTransactionCommand();
}

Datum
apply(PG_FUNCTION_ARGS)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle;
	Oid			ids[2];

	ids[0] = MyDatabaseId;
	ids[1] = PG_GETARG_OID(0);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	strcpy(worker.bgw_library_name, "pglogical");
	strcpy(worker.bgw_function_name, "pglogical_apply_main");
	strcpy(worker.bgw_name, "pglogical apply");
	memcpy(worker.bgw_extra, ids, sizeof(ids));
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		elog(ERROR, "no worker");
	PG_RETURN_BOOL(WaitForBackgroundWorkerShutdown(handle) == BGWH_STOPPED);
}
});
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
my $made = !$real && system("$cc -O1 -Wall -fPIC -shared -I$include -o $folder/pglogical.so $dir/pglogical.c") == 0;
plan skip_all => 'no module of this name could be made' unless $made || $real;
if ($real)
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'zheap_am, pglogical'\n");
	$node->start;
	# a list of plugins that later minor releases want
	my $list = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'});
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, test_decoding, pglogical_output'\n") if $list;
	$node->reload;
}
else
{
	$node->start;
}

sub dsn { return 'host=' . $node->host . ' port=' . $node->port . " dbname=$_[0]" }

my $schema = 'CREATE TABLE z (id int PRIMARY KEY, v int) USING zheap; CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
CREATE SCHEMA only_heap; CREATE TABLE only_heap.h2 (id int PRIMARY KEY) USING heap;
CREATE UNLOGGED TABLE only_heap.u (id int PRIMARY KEY) USING zheap';
my $no_apply = qr/ERROR:  pglogical cannot apply changes to tables of access method zheap/;
$node->safe_psql('postgres', "SET client_min_messages = error; CREATE EXTENSION zheap_am; $schema");
if ($real)
{
	$node->safe_psql('postgres', q{CREATE EXTENSION pglogical; SELECT pglogical.create_node('p', '} . dsn('postgres') . q{')});
}
else
{
	$node->safe_psql('postgres', q{
CREATE SCHEMA pglogical;
CREATE FUNCTION pglogical.replication_set_add_table(name, regclass) RETURNS boolean AS 'pglogical', 'pglogical_replication_set_add_table' LANGUAGE C;
CREATE FUNCTION pglogical.replication_set_add_all_tables(name, text[]) RETURNS boolean AS 'pglogical', 'pglogical_replication_set_add_all_tables' LANGUAGE C STRICT;
CREATE TABLE pglogical.replication_set_table (set_id oid, set_reloid regclass) USING heap; INSERT INTO pglogical.replication_set_table VALUES (1, 'h');
CREATE FUNCTION apply(regclass) RETURNS boolean AS 'pglogical' LANGUAGE C STRICT});
}

# --- replication sets
is($node->safe_psql('postgres', "SELECT pglogical.replication_set_add_table('default', '$_')"), 't', "table $_ is replicated") for 'h', 'z';
is($node->safe_psql('postgres', q{SELECT pglogical.replication_set_add_all_tables('default', '{only_heap}')}), 't', 'a schema') unless $real;

# --- workers
sub logged
{
	my ($from, $what) = @_;
	for (1 .. 1800)
	{
		return 1 if substr(slurp_file($node->logfile), $from) =~ $what;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}
my $at = -s $node->logfile;
if ($made)
{
	$node->safe_psql('postgres', q{SELECT apply('h')});
	ok(logged($at, qr/worker opened h/), 'a worker writes heap');
	$node->safe_psql('postgres', q{SELECT apply('z')});
	ok(logged($at, $no_apply), 'a worker is refused zheap');
	set_conf($node, 'pglogical.use_spi' => 'on');
	$node->safe_psql('postgres', q{SELECT apply('z')});
	ok(logged($at, qr/worker opened z/), 'unless it uses SQL');
}
else
{
	$node->safe_psql('postgres', 'CREATE DATABASE sub');
	$node->safe_psql('sub', q{SET client_min_messages = error; CREATE EXTENSION zheap_am; CREATE TABLE h (id int PRIMARY KEY, v int) USING heap; CREATE TABLE z (id int PRIMARY KEY, v int) USING heap; CREATE EXTENSION pglogical;
SELECT pglogical.create_node('s', '} . dsn('sub') . q{'); SELECT pglogical.create_subscription('s', '} . dsn('postgres') . q{')});
	ok($node->poll_query_until('sub', q{SELECT count(*) = 1 FROM pglogical.show_subscription_status() WHERE status = 'replicating'}), 'replicating');
	$node->safe_psql('sub', 'SET client_min_messages = error; ALTER TABLE h SET ACCESS METHOD zheap');
	$node->safe_psql('postgres', 'INSERT INTO h SELECT g, g FROM generate_series(1, 100) g; UPDATE h SET v = 0 WHERE id < 10; DELETE FROM h WHERE id = 1');
	ok(logged($at, $no_apply), 'the apply worker is refused zheap');
	is($node->safe_psql('sub', 'SELECT count(*) FROM h'), '0', 'nothing was applied');
	$node->append_conf('postgresql.conf', "pglogical.use_spi = on\npglogical.conflict_resolution = error\n");
	$node->restart;
	ok($node->poll_query_until('sub', 'SELECT count(*) = 99 FROM h'), 'it is applied by SQL');
	$node->safe_psql('postgres', 'INSERT INTO z VALUES (1, 1), (2, 2); UPDATE z SET v = 3 WHERE id = 2; DELETE FROM z WHERE id = 1');
	ok($node->poll_query_until('sub', 'SELECT count(*) = 1 FROM z WHERE v = 3'), 'changes of a zheap table are applied');
	is($node->safe_psql('sub', 'SELECT count(*), sum(v) FROM h'), $node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM h'), 'all of it');
	check_tables($node, 'of the subscriber', 'sub');
	$node->safe_psql('sub', q{SELECT pglogical.drop_subscription('s')});
}

check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
