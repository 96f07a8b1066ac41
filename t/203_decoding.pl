# Logical decoding of zheap tables between changes of heap tables: every way of
# writing and removing an out-of-line value of one stands in a transaction
# between changes of heap tables, and what is decoded is what is decoded where
# all tables are heap.  (Chunks that aren't its own must not be collected for
# the next row: that crashed the server.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('decoding', conf => q{
wal_level = logical
max_replication_slots = 10
logical_decoding_work_mem = 64kB
client_min_messages = error
autovacuum = off});
$node->start;
plan skip_all => 'test_decoding is not installed'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'test_decoding.so'}) eq '0';
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION long(c text) RETURNS text LANGUAGE sql AS $$ SELECT repeat(c, 9000) $$;
CREATE TABLE h (a int PRIMARY KEY, b text) USING heap;
ALTER TABLE h ALTER b SET STORAGE EXTERNAL;
CREATE TABLE n (a int PRIMARY KEY) USING heap});

# what happens to the zheap table
my @change = (
	[ 'INSERT', q{INSERT INTO z VALUES (1, long('a'))} ],
	[ 'INSERT of several', q{INSERT INTO z SELECT g, long(g::text) FROM generate_series(2, 6) g} ],
	[ 'UPDATE of the value', q{UPDATE z SET b = long('b') WHERE a = 2} ],
	[ 'UPDATE of another column', q{UPDATE z SET a = 100 WHERE a = 3} ],
	[ 'ON CONFLICT DO NOTHING', q{INSERT INTO z VALUES (4, long('c')), (7, long('c')) ON CONFLICT DO NOTHING} ],
	[ 'ON CONFLICT DO UPDATE', q{INSERT INTO z VALUES (4, long('d')) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b} ],
	[ 'MERGE', q{MERGE INTO z USING (VALUES (4), (8)) v (k) ON a = k WHEN MATCHED THEN UPDATE SET b = long('e') WHEN NOT MATCHED THEN INSERT VALUES (k, long('e'))} ],
	[ 'COPY', q{COPY z FROM PROGRAM 'perl -e "print qq{20\t}, q{y} x 9000, qq{\n21\t}, q{x} x 9000, qq{\n}"'} ],
	[ 'DELETE', 'DELETE FROM z WHERE a IN (1, 2)' ],
	[ 'UPDATE away', 'UPDATE z SET b = NULL WHERE a = 4' ],
	[ 'rolled back', q{SAVEPOINT s; INSERT INTO z VALUES (50, long('f')); UPDATE z SET b = long('g') WHERE a = 5; ROLLBACK TO s} ],
	[ 'subtransaction', q{SAVEPOINT s; INSERT INTO z VALUES (51, long('f')); RELEASE s} ],
	[ 'CREATE TABLE AS', q{CREATE TABLE z2 USING AM AS SELECT * FROM z ORDER BY a} ],
	[ 'rewrite', q{ALTER TABLE z2 ALTER a TYPE bigint} ],
	[ 'CLUSTER', q{CREATE INDEX z2_a ON z2 (a); CLUSTER z2 USING z2_a} ],
	[ 'to heap and back', q{ALTER TABLE z2 SET ACCESS METHOD heap; ALTER TABLE z2 SET ACCESS METHOD AM; UPDATE z2 SET b = b || 'x' WHERE a = 5} ],
	[ 'TRUNCATE', q{TRUNCATE z2} ],
	[ 'materialized view', q{CREATE MATERIALIZED VIEW m USING AM AS SELECT * FROM z ORDER BY a; REFRESH MATERIALIZED VIEW m; DROP MATERIALIZED VIEW m} ]);

# what stands around it: each could meet the chunks in a way of its own
my @around = (
	[ 'DELETE', 'INSERT INTO h VALUES (%d, long(%d::text))', 'DELETE FROM h WHERE a = %d' ],
	[ 'UPDATE', 'INSERT INTO h VALUES (%d, long(%d::text))', 'UPDATE h SET a = -%d WHERE a = %d' ],
	[ 'INSERT', 'INSERT INTO h VALUES (%d, long(%d::text))', 'INSERT INTO h VALUES (-%d, long(%d::text))' ],
	[ 'table without TOAST', 'INSERT INTO n VALUES (%d)', 'INSERT INTO n VALUES (-%d)' ],
	[ 'speculative', 'INSERT INTO h VALUES (%d, long(%d::text)) ON CONFLICT DO NOTHING', 'INSERT INTO h VALUES (-%d, long(%d::text)) ON CONFLICT DO NOTHING' ]);

sub decoded
{
	my ($slot) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		qq{SELECT left(data, 70) || ' ' || length(data) || ' ' || md5(data) FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')});
	return $rc == 0 ? $out : "rc $rc: $err";
}

# The transactions, with tables of an access method; at the end what was decoded
# of them.
sub decode_all
{
	my ($am, $spill, $before, $after) = @_;
	my $id = 1;
	$node->safe_psql('postgres', "CREATE TABLE z (a int PRIMARY KEY, b text) USING $am; ALTER TABLE z ALTER b SET STORAGE EXTERNAL");
	$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});
	for my $c (@change)
	{
		my ($b, $a) = map { s/%d/$id/gr } $before, $after;
		(my $change = $c->[1]) =~ s/\bAM\b/$am/g;
		# more than logical_decoding_work_mem
		my $more = $spill ? 'INSERT INTO h SELECT 1000000 + g, NULL FROM generate_series(1, 1500) g; DELETE FROM h WHERE a > 1000000' : '';
		my ($rc, $out, $err) = $node->psql('postgres', "BEGIN; $b; $change; $more; $a; COMMIT", on_error_stop => 1);
		is("$rc$err", '0', "$c->[0] is done") if $rc || $err;
		$id++;
	}
	my $got = decoded('s');
	$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('s'); TRUNCATE h, n; DROP TABLE z; DROP TABLE IF EXISTS z2});
	return $got;
}

for my $spill (0, 1)
{
	for my $around (@around)
	{
		my ($what, @statements) = @$around;
		my ($want, $got) = map { decode_all($_, $spill, @statements) } 'heap', 'zheap';
		is(scalar(() = $want =~ /^BEGIN /mg), scalar(@change), "$what: decoded of heap");
		cmp_ok(scalar(() = $want =~ /^table public\.z: /mg), '>', 15, "$what: changes of the table among them");
		my @want = split /\n/, $want;
		my @got = split /\n/, $got;
		my ($n) = grep { ($want[$_] // '') ne ($got[$_] // '') } 0 .. (@want > @got ? $#want : $#got);
		is(defined $n ? "$n: heap $want[$n], zheap $got[$n]" : '', '', "$what" . ($spill ? ', spilled' : '') . ': the same of zheap');
	}
}

# a speculative insertion that is taken back, with its chunks
my $s1 = session($node);
my $s2 = session($node);
$node->safe_psql('postgres', q{CREATE TABLE z (a int PRIMARY KEY, b text) USING zheap; ALTER TABLE z ALTER b SET STORAGE EXTERNAL;
SELECT pg_create_logical_replication_slot('s', 'test_decoding')});
$node->safe_psql('postgres', q{CREATE FUNCTION late(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN $1; END $$;
CREATE UNIQUE INDEX z_late ON z (late(a))});
my $s3 = session($node);
ask($s3, 'SELECT pg_advisory_lock(1)');
ask($s1, 'BEGIN; INSERT INTO n VALUES (1)');
send_sql($s1, q{INSERT INTO z VALUES (900, long('s')) ON CONFLICT DO NOTHING});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'}), 'an insertion waits in its index');
send_sql($s2, q{INSERT INTO z VALUES (900, long('t')) ON CONFLICT DO NOTHING});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event = 'advisory'}), 'another one waits beside it');
ask($s3, 'SELECT pg_advisory_unlock(1)');
ask($s1, 'INSERT INTO n VALUES (2); DELETE FROM n WHERE a = 1; COMMIT');
ask($s2, 'SELECT 1');
is($node->safe_psql('postgres', 'SELECT count(*), min(length(b)) FROM z'), '1|9000', 'one of two was inserted');
my $got = decoded('s');
is(join(' ', $got =~ /^table public\.n: (\w+: a\[integer\]:\d)/mg), 'INSERT: a[integer]:1 INSERT: a[integer]:2 DELETE: a[integer]:1', 'decoded beside an insertion that may have been taken back');
is(scalar(() = $got =~ /^table public\.z: INSERT: a\[integer\]:900 b\[text\]:'(s{20}|t{20})/mg), 1, 'one of the two insertions is decoded') or diag($got);
finish_session($_) for $s1, $s2, $s3;

# values of the old row are fetched while its page is locked, but the locks that
# this takes are waited for before that: others read the page meanwhile
$node->safe_psql('postgres', q{CREATE TABLE w (a int PRIMARY KEY, b text, c int) USING zheap; ALTER TABLE w ALTER b SET STORAGE EXTERNAL; ALTER TABLE w REPLICA IDENTITY FULL;
INSERT INTO w SELECT g, long('w'), 0 FROM generate_series(1, 3) g});
my $toast_index = $node->safe_psql('postgres', q{SELECT i.indexrelid::regclass FROM pg_class c JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.relname = 'w'});
for my $change ('DELETE FROM w WHERE a = 1', 'UPDATE w SET c = 1 WHERE a = 2')
{
	my ($blocker, $writer, $reader) = map { session($node) } 1 .. 3;
	my $pid = ask($writer, 'SELECT pg_backend_pid()');
	ask($blocker, "BEGIN; REINDEX INDEX $toast_index");
	send_sql($writer, $change);
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND wait_event_type = 'Lock' AND wait_event = 'relation'"), "waits for the index: $change");
	is(ask($reader, 'SELECT count(c) > 1 FROM w'), 't', 'its page can be read');
	ask($reader, "SELECT pg_cancel_backend($pid)");
	like(ask($writer, 'SELECT 1'), qr/canceling statement.*1$/s, 'and the wait be cancelled');
	ask($blocker, 'COMMIT');
	like(ask($writer, $change), qr/^$/, 'later it is done');
	finish_session($_) for $blocker, $writer, $reader;
}
$got = decoded('s');
like($got, qr/^table public\.w: DELETE: a\[integer\]:1 b\[text\]:'w+ 9\d\d\d /m, 'the old row is decoded whole');
like($got, qr/^table public\.w: UPDATE: old-key: a\[integer\]:2 b\[text\]:'w+ 9\d\d\d /m, 'of an update, too');

# an output plugin that reads a zheap table, as one may read catalog tables
my $folder = $node->config_data('--pkglibdir');
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
my $plugin = "zheap_reads_$$";
END { unlink "$folder/$plugin.so" if $plugin; }
put($node->basedir . '/plugin.c', q{
#include "postgres.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "fmgr.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;
extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *cb);

static void
startup(LogicalDecodingContext *ctx, OutputPluginOptions *opt, bool is_init)
{
	opt->output_type = OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
}

static void
begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
}

static void
commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
}

/* the table that is named as the changed one, with r_ before it */
static void
change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
	   ReorderBufferChange *change)
{
	Oid			schema = get_namespace_oid("public", false);
	Relation	rel = table_open(get_relname_relid(psprintf("r_%s", RelationGetRelationName(relation)), schema), AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(rel, 0, NULL);

	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		;
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	OutputPluginPrepareWrite(ctx, true);
	appendStringInfoString(ctx->out, "read");
	OutputPluginWrite(ctx, true);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = startup;
	cb->begin_cb = begin;
	cb->change_cb = change;
	cb->commit_cb = commit;
}
});
SKIP: {
	skip "$folder is not writable", 1 unless -w $folder;
	skip 'no plugin could be made', 1
	  if system("$cc -O1 -fPIC -shared -I$include -o $folder/$plugin.so " . $node->basedir . '/plugin.c') != 0;
	set_conf($node, output_plugin_libraries => "$plugin, test_decoding")
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'});
	$node->safe_psql('postgres', 'CREATE TABLE t1 (a int) USING heap; CREATE TABLE r_t1 (a int) USING heap WITH (user_catalog_table = true); INSERT INTO r_t1 VALUES (1); CREATE TABLE t2 (a int) USING heap; CREATE TABLE r_t2 (a int) USING zheap');
	for my $rows (0, 1)
	{
		for my $t ('t1', 't2')
		{
			$node->safe_psql('postgres', "INSERT INTO r_t2 SELECT $rows WHERE $rows > 0; SELECT pg_create_logical_replication_slot('r', '$plugin'); INSERT INTO $t VALUES (1)");
			my ($rc, $out, $err) = $node->psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('r', NULL, NULL)});
			$t eq 't1' ? is("$out$err", 'read', 'a plugin reads a heap table')
			  : like($err, qr/ERROR:  table "r_t2" of access method zheap cannot be read by logical decoding/, "but no zheap table, be it empty or not: $rows");
			$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('r')});
		}
	}
}

check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
