# pg_repack exchanges the files of a table and its copy, whatever their access
# methods: it is refused where one of them is a zheap table, before it has
# copied anything if that can be told, and works for heap.  A module made here
# has the functions by which it is known; the program itself is tried, too, if
# it is installed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('repack', conf => "autovacuum = off\n");
my $folder = $node->config_data('--pkglibdir');
my $real = -e "$folder/pg_repack.so";
plan skip_all => "$folder is not writable" unless $real || -w $folder;

END { unlink "$folder/my_pg_repack.so" if $folder; }
my $dir = $node->basedir;
put("$dir/my_pg_repack.c", q{
#include "postgres.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(repack_swap);
PG_FUNCTION_INFO_V1(repack_disable_autovacuum);

/* the files of a table and of repack.table_OID, as the catalog names them */
Datum
repack_swap(PG_FUNCTION_ARGS)
{
	Oid			table = PG_GETARG_OID(0);
	Oid			copy = get_relname_relid(psprintf("table_%u", table),
										 get_namespace_oid("repack", false));
	Relation	rel = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	a;
	HeapTuple	b;
	Form_pg_class fa;
	Form_pg_class fb;
	Oid			file;

	LockRelationOid(table, AccessExclusiveLock);
	LockRelationOid(copy, AccessExclusiveLock);
	a = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(table));
	b = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(copy));
	fa = (Form_pg_class) GETSTRUCT(a);
	fb = (Form_pg_class) GETSTRUCT(b);
	file = fa->relfilenode;
	fa->relfilenode = fb->relfilenode;
	fb->relfilenode = file;
	CatalogTupleUpdate(rel, &a->t_self, a);
	CatalogTupleUpdate(rel, &b->t_self, b);
	table_close(rel, RowExclusiveLock);
	PG_RETURN_VOID();
}

Datum
repack_disable_autovacuum(PG_FUNCTION_ARGS)
{
	PG_RETURN_VOID();
}
});
my ($cc, $include) = map { $node->config_data($_) } '--cc', '--includedir-server';
$node->start;
my $made = !$real && system("$cc -O1 -Wall -fPIC -shared -I$include -o $folder/my_pg_repack.so $dir/my_pg_repack.c") == 0;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am; CREATE EXTENSION IF NOT EXISTS amcheck');
my $no_copy = qr/ERROR:  pg_repack cannot replace table "t" by a copy of access method zheap\nHINT:  Set default_table_access_method to heap for pg_repack/;
my $no_table = qr/ERROR:  pg_repack cannot reorganize table "t" of access method zheap\nHINT:  Use VACUUM FULL or CLUSTER/;
my %error = ('heap zheap' => $no_copy, 'zheap heap' => $no_table, 'zheap zheap' => $no_table);

SKIP: {
	skip 'no module of this name could be made', 1 unless $made;
	$node->safe_psql('postgres', q{
CREATE SCHEMA repack;
CREATE FUNCTION repack.repack_swap(oid) RETURNS void AS '$libdir/my_pg_repack', 'repack_swap' LANGUAGE C STRICT;
CREATE FUNCTION repack.disable_autovacuum(regclass) RETURNS void AS '$libdir/my_pg_repack', 'repack_disable_autovacuum' LANGUAGE C STRICT});
	for my $table ('heap', 'zheap')
	{
		for my $copy ('heap', 'zheap')
		{
			$node->safe_psql('postgres', qq{
DROP TABLE IF EXISTS t CASCADE;
CREATE TABLE t (a int, b text) USING $table; INSERT INTO t SELECT g, 'old' FROM generate_series(1, 1000) g; DELETE FROM t WHERE a % 2 = 0});
			my $oid = $node->safe_psql('postgres', q{SELECT 't'::regclass::oid});
			my $error = $error{"$table $copy"};
			# its log
			my ($rc, $out, $err) = $node->psql('postgres', "SET default_table_access_method = $copy; CREATE TABLE repack.log_$oid (a int); SELECT repack.disable_autovacuum('repack.log_$oid'); SELECT 'goes on'");
			$error ? like($err, $error, "log for $table by $copy") : is("$err$out", "\ngoes on", "log for $table by $copy");
			# the copy, its default not known
			($rc, $out, $err) = $node->psql('postgres', "CREATE TABLE repack.table_$oid USING $copy AS SELECT * FROM t; SELECT repack.disable_autovacuum('repack.table_$oid'); SELECT 'goes on'");
			$error ? like($err, $error, "copy of $table by $copy") : is("$err$out", "\ngoes on", "copy of $table by $copy");
			# the exchange
			my $files = qq{SELECT string_agg(pg_relation_filenode(r)::text, ' ') FROM (VALUES ('t'), ('repack.table_$oid')) v (r)};
			my $before = $node->safe_psql('postgres', $files);
			($rc, $out, $err) = $node->psql('postgres', "SELECT repack.repack_swap($oid)");
			my $after = $node->safe_psql('postgres', $files);
			if ($error)
			{
				like($err, $error, "exchange of $table and $copy");
				is($after, $before, 'files are as they were');
			}
			else
			{
				is($err, '', "exchange of $table and $copy");
				is($after, join(' ', reverse split / /, $before), 'files are exchanged');
			}
			is($node->safe_psql('postgres', q{SELECT count(*), sum(a), min(b) FROM t}), '500|250000|old', 'the rows are there');
			$node->safe_psql('postgres', "DROP TABLE repack.table_$oid, repack.log_$oid");
		}
	}
	# one that has no copy
	my ($rc, $out, $err) = $node->psql('postgres', q{CREATE TABLE plain (a int) USING heap; SELECT repack.disable_autovacuum('plain'); SELECT repack.disable_autovacuum('zheap_none')});
	like($err, qr/relation "zheap_none" does not exist/, 'tables of other names pass');
	$node->safe_psql('postgres', 'DROP SCHEMA repack CASCADE');
}

SKIP: {
	my $program = $node->config_data('--bindir') . '/pg_repack';
	skip 'pg_repack is not installed', 1 unless $real && -x $program;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_repack');
	for my $table ('heap', 'zheap')
	{
		for my $default ('heap', 'zheap')
		{
			$node->safe_psql('postgres', qq{
DROP TABLE IF EXISTS t;
CREATE TABLE t (a int PRIMARY KEY, b text) USING $table; INSERT INTO t SELECT g, 'old' FROM generate_series(1, 1000) g; DELETE FROM t WHERE a % 2 = 0});
			local $ENV{PGOPTIONS} = "-c default_table_access_method=$default";
			my ($out, $err) = ('', '');
			IPC::Run::run([ $program, '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-t', 't' ], '>', \$out, '2>', \$err);
			my $error = $error{"$table $default"};
			$error ? like($err, $error, "pg_repack of $table by $default") : unlike($err, qr/ERROR/, "pg_repack of $table by $default");
			is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*), sum(a), min(b) FROM t; SET enable_seqscan = on; SET enable_indexscan = off; SELECT count(*), sum(a), min(b) FROM t}), "500|250000|old\n500|250000|old", 'the rows are there');
			is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relnamespace = 'repack'::regnamespace AND relname ~ '[0-9]'}), '0', 'nothing is left behind');
			IPC::Run::run([ $program, '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-t', 't', '-x' ], '>', \$out, '2>', \$err);
			is($node->safe_psql('postgres', q{SELECT bt_index_check('t_pkey', true)}), '', 'and its index, alone');
		}
	}
}

check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
