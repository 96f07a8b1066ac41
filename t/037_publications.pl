# Changes of zheap tables aren't decoded yet, so nothing may publish one: each
# command that would make a publication cover a zheap table is refused, changes
# of one that is covered all the same fail, and who decodes without
# publications is told.  Heap tables beside them are published as ever.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('publisher', allows_streaming => 'logical', conf => "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

my $refused = qr/ERROR:  table "(\w+)" of access method zheap cannot be published by publication "(\w+)"\nDETAIL:  Changes of zheap tables are not decoded yet: subscribers would miss them\.\nHINT:/;

sub run_sql
{
	my ($sql, %opt) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET client_min_messages = error; $sql", %opt);
	return $err;
}

sub refused
{
	my ($sql, $table, $pub) = @_;
	my $err = run_sql($sql);
	ok($err =~ $refused && $1 eq $table && $2 eq $pub, "refused: $sql") or diag($err);
}

sub accepted
{
	my ($sql) = @_;
	is(run_sql($sql), '', "accepted: $sql");
}

sub unchanged
{
	my ($what, $query, $want) = @_;
	is($node->safe_psql('postgres', $query), $want, $what);
}

$node->safe_psql('postgres', q{
SET client_min_messages = error;
CREATE SCHEMA s;
CREATE SCHEMA e;
CREATE TABLE h (a int PRIMARY KEY) USING heap;
CREATE TABLE z (a int PRIMARY KEY) USING zheap;
CREATE TABLE s.sz (a int) USING zheap;
CREATE TABLE p (a int) PARTITION BY LIST (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1) USING heap;
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (a);
CREATE TABLE p2z PARTITION OF p2 DEFAULT USING zheap;
CREATE TABLE q (a int) PARTITION BY LIST (a);
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1) USING heap;
CREATE TABLE parent (a int) USING heap;
CREATE TABLE child () INHERITS (parent) USING zheap});

# --- publications
my $all = 'SELECT count(*) FROM pg_publication';
refused('CREATE PUBLICATION n FOR TABLE z', 'z', 'n');
refused('CREATE PUBLICATION n FOR TABLE h, z', 'z', 'n');
refused('CREATE PUBLICATION n FOR TABLE p', 'p2z', 'n');
refused('CREATE PUBLICATION n FOR TABLE p WITH (publish_via_partition_root)', 'p2z', 'n');
refused('CREATE PUBLICATION n FOR TABLE p2', 'p2z', 'n');
refused('CREATE PUBLICATION n FOR TABLE parent', 'child', 'n');
refused('CREATE PUBLICATION n FOR TABLES IN SCHEMA s', 'sz', 'n');
refused('CREATE PUBLICATION n FOR TABLES IN SCHEMA e, s', 'sz', 'n');
refused('DO $$ BEGIN CREATE PUBLICATION n FOR TABLE z; END $$', 'z', 'n');
like(run_sql('CREATE PUBLICATION n FOR ALL TABLES'), $refused, 'refused: FOR ALL TABLES');
like(run_sql('CREATE PUBLICATION n FOR ALL TABLES WITH (publish_via_partition_root)'), $refused, 'refused: FOR ALL TABLES by the root');
like(run_sql('CREATE PUBLICATION n FOR ALL TABLES'), qr/HINT:  Create the table with access method heap \(USING heap\), or replace the publication by one that names the tables/, 'hint of FOR ALL TABLES');
unchanged('no publication', $all, 0);
accepted('CREATE PUBLICATION n FOR TABLE h, p1, ONLY parent; CREATE PUBLICATION empty; CREATE PUBLICATION es FOR TABLES IN SCHEMA e; CREATE PUBLICATION nq FOR TABLE q');
refused('ALTER PUBLICATION n ADD TABLE z', 'z', 'n');
refused('ALTER PUBLICATION n SET TABLE h, z', 'z', 'n');
refused('ALTER PUBLICATION n ADD TABLE p', 'p2z', 'n');
refused('ALTER PUBLICATION n ADD TABLES IN SCHEMA s', 'sz', 'n');
refused('ALTER PUBLICATION empty SET TABLES IN SCHEMA s', 'sz', 'empty');
accepted(q{ALTER PUBLICATION n SET (publish = 'insert'); ALTER PUBLICATION n RENAME TO n2; ALTER PUBLICATION n2 RENAME TO n; ALTER PUBLICATION n DROP TABLE p1; ALTER PUBLICATION n ADD TABLE p1; ALTER PUBLICATION n SET (publish = 'insert, update, delete, truncate')});

# --- tables
refused('CREATE TABLE e.n (a int) USING zheap', 'n', 'es');
refused('CREATE TABLE e.n USING zheap AS SELECT 1 AS a', 'n', 'es');
refused('SET default_table_access_method = zheap; SELECT 1 AS a INTO e.n', 'n', 'es');
refused('SET default_table_access_method = zheap; CREATE TABLE e.n (a int)', 'n', 'es');
refused('EXPLAIN ANALYZE CREATE TABLE e.n USING zheap AS SELECT 1 AS a', 'n', 'es');
refused('CREATE TABLE e.n (LIKE h INCLUDING ALL) USING zheap', 'n', 'es');
refused('CREATE TABLE q2 PARTITION OF q DEFAULT USING zheap', 'q2', 'nq');
refused('CREATE TABLE q2 PARTITION OF q DEFAULT PARTITION BY LIST (a); CREATE TABLE q2z PARTITION OF q2 DEFAULT USING zheap', 'q2z', 'nq');
accepted('DROP TABLE q2');
refused('ALTER TABLE h SET ACCESS METHOD zheap', 'h', 'n');
refused('ALTER TABLE q1 SET ACCESS METHOD zheap', 'q1', 'nq');
refused('ALTER TABLE h ADD b int DEFAULT random(), SET ACCESS METHOD zheap', 'h', 'n');
refused('CREATE TABLE q3 (a int) USING zheap; ALTER TABLE q ATTACH PARTITION q3 DEFAULT', 'q3', 'nq');
refused('CREATE TABLE q4 (a int) PARTITION BY LIST (a); CREATE TABLE q4z PARTITION OF q4 DEFAULT USING zheap; ALTER TABLE q ATTACH PARTITION q4 DEFAULT', 'q4z', 'nq');
refused('ALTER TABLE z SET SCHEMA e', 'z', 'es');
refused('ALTER TABLE p SET SCHEMA e', 'p2z', 'es');
refused('CREATE UNLOGGED TABLE e.u (a int) USING zheap; ALTER TABLE e.u SET LOGGED', 'u', 'es');
refused('DO $$ BEGIN ALTER TABLE z SET SCHEMA e; END $$', 'z', 'es');
refused('BEGIN; CREATE TABLE b (a int) USING zheap; CREATE PUBLICATION nb FOR TABLE b; COMMIT', 'b', 'nb');
refused('BEGIN; CREATE PUBLICATION nb FOR TABLES IN SCHEMA s; COMMIT', 'sz', 'nb');
accepted('CREATE TABLE e.h (a int) USING heap; CREATE TEMP TABLE t (a int) USING zheap; CREATE MATERIALIZED VIEW e.m USING zheap AS SELECT 1 AS a; ALTER TABLE e.u ADD b int; ALTER TABLE e.u SET ACCESS METHOD heap; ALTER TABLE e.u SET ACCESS METHOD zheap');
accepted('ALTER TABLE z SET ACCESS METHOD heap; ALTER TABLE z SET SCHEMA e; ALTER TABLE e.z SET SCHEMA public; ALTER TABLE z SET ACCESS METHOD zheap');
accepted('ALTER TABLE s.sz ADD b int, ALTER a TYPE bigint; CLUSTER; VACUUM FULL z; TRUNCATE z; ALTER TABLE p DETACH PARTITION p2');
unchanged('heap tables are still heap tables', q{SELECT string_agg(relname || ' ' || amname, ' ' ORDER BY 1) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname IN ('h', 'q1', 'p1') AND relnamespace = 'public'::regnamespace}, 'h heap p1 heap q1 heap');
accepted('DROP TABLE e.u; DROP MATERIALIZED VIEW e.m');

# in an extension's name
my $folder = $node->config_data('--sharedir') . '/extension';
my $ext = "pub_script_$$";
SKIP: {
	skip "$folder is not writable", 3 unless -w $folder;
	put("$folder/$ext.control", "default_version = '1'\nrelocatable = true\n");
	put("$folder/$ext--1.sql", 'CREATE TABLE ext_z (a int) USING zheap;');
	refused("CREATE EXTENSION $ext SCHEMA e", 'ext_z', 'es');
	accepted("CREATE EXTENSION $ext");
	refused("ALTER EXTENSION $ext SET SCHEMA e", 'ext_z', 'es');
	run_sql("DROP EXTENSION $ext");
	unlink "$folder/$ext.control", "$folder/$ext--1.sql";
}

# --- FOR ALL TABLES, in a database without zheap tables until then
$node->safe_psql('postgres', 'CREATE DATABASE clean');
$node->safe_psql('clean', 'CREATE EXTENSION zheap_am; CREATE TABLE h (a int PRIMARY KEY) USING heap; CREATE PUBLICATION everything FOR ALL TABLES');
for my $sql ('CREATE TABLE z (a int) USING zheap', 'ALTER TABLE h SET ACCESS METHOD zheap', 'CREATE TABLE z USING zheap AS SELECT 1 AS a')
{
	my ($rc, $out, $err) = $node->psql('clean', $sql);
	ok($err =~ $refused && $2 eq 'everything', "refused beside FOR ALL TABLES: $sql") or diag($err);
}
is($node->safe_psql('clean', 'CREATE TABLE h2 (a int) USING heap; CREATE TEMP TABLE t (a int) USING zheap; INSERT INTO t VALUES (1) RETURNING a'), '1', 'heap tables and temporary ones are accepted beside it');

# --- what no command could see: two transactions, neither sees the other
my $s = session($node, 'clean');
$node->safe_psql('clean', 'DROP PUBLICATION everything; CREATE TABLE z (a int PRIMARY KEY, b int) USING zheap; INSERT INTO z VALUES (1, 1); ALTER TABLE z SET ACCESS METHOD heap');
ask($s, 'BEGIN; SET client_min_messages = error; CREATE PUBLICATION everything FOR ALL TABLES');
$node->safe_psql('clean', 'ALTER TABLE z SET ACCESS METHOD zheap');
ask($s, 'COMMIT');
is($node->safe_psql('clean', 'SELECT count(*) FROM pg_publication_tables t JOIN pg_class c ON c.relname = t.tablename JOIN pg_am a ON a.oid = c.relam WHERE amname = $$zheap$$'), '1', 'a zheap table is published');
my @change = ('INSERT INTO z VALUES (2, 2)', 'INSERT INTO z SELECT 3, 3', 'INSERT INTO z VALUES (4, 4) ON CONFLICT DO NOTHING',
	q{COPY z FROM PROGRAM 'printf 5\\\\t5\\\\n6\\\\t6\\\\n'}, 'UPDATE z SET b = 2', 'UPDATE z SET a = 2', 'DELETE FROM z',
	'INSERT INTO z VALUES (1, 4) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b', 'MERGE INTO z USING (VALUES (1)) v (k) ON a = k WHEN MATCHED THEN DELETE',
	'SELECT 1; PREPARE i AS INSERT INTO z VALUES (2, 2); EXECUTE i');
for my $sql (@change)
{
	like(ask($s, $sql), $refused, "refused: $sql");
}
is(ask($s, 'SELECT * FROM z FOR UPDATE'), '1|1', 'rows can be read and locked');
is(ask($s, 'VACUUM FULL z; SELECT * FROM z'), '1|1', 'the table can be rewritten');
ask($s, q{ALTER PUBLICATION everything SET (publish = 'insert')});
like(ask($s, 'INSERT INTO z VALUES (2, 2)'), $refused, 'INSERT is published');
is(ask($s, 'UPDATE z SET b = b + 1 RETURNING b'), '2', 'UPDATE is not');
ask($s, 'DROP PUBLICATION everything');
is(ask($s, $_), '', "accepted without the publication: $_") for @change[ 0 .. 3 ];
is(ask($s, 'SELECT count(*) FROM z'), '6', 'all of them');
finish_session($s);

# --- decoding without publications
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE TABLE w (a int) USING zheap; ALTER TABLE w ADD b text DEFAULT random(); DROP TABLE w; CREATE TABLE w (a int) USING heap; ALTER TABLE w SET ACCESS METHOD zheap; DROP TABLE w; CREATE TEMP TABLE w (a int) USING zheap');
is(scalar(() = $err =~ /WARNING:  logical decoding does not see changes of table "w"/g), 2, 'warned when a table becomes zheap') or diag($err);
is(scalar(() = $err =~ /WARNING/g), 2, 'and not else') or diag($err);
SKIP: {
	skip 'test_decoding is not installed', 4
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'test_decoding.so'}) eq '0';
	$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('plain', 'test_decoding'); SELECT pg_create_logical_replication_slot('out', 'pgoutput');
INSERT INTO z VALUES (100); INSERT INTO h VALUES (100); UPDATE z SET a = 101});
	my $get = q{SELECT data FROM pg_logical_slot_get_changes('plain', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')};
	is($node->safe_psql('postgres', "$get; INSERT INTO z VALUES (102); $get"), "BEGIN\ntable public.h: INSERT: a[integer]:100\nCOMMIT", 'heap is decoded');
	my $log = slurp_file($node->logfile);
	is(scalar(() = $log =~ /LOG:  replication slot "plain" passes over changes of zheap tables/g), 1, 'a slot that passes over zheap tables is logged once');
	($rc, $out, $err) = $node->psql('postgres', q{SELECT count(*) > 0 FROM pg_logical_slot_get_binary_changes('out', NULL, NULL, 'proto_version', '1', 'publication_names', 'n')});
	is("$out $err", 't ', 'publications are decoded');
	unlike(slurp_file($node->logfile), qr/replication slot "out" passes/, 'and need no such line');
	$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('plain'), pg_drop_replication_slot('out')});
}

# --- a subscriber gets what it was promised
my $sub = zheap_node('subscriber');
$sub->start;
$sub->safe_psql('postgres', 'CREATE EXTENSION zheap_am; CREATE TABLE h (a int PRIMARY KEY) USING zheap; CREATE TABLE p1 (a int) USING zheap; CREATE TABLE parent (a int) USING zheap');
$sub->safe_psql('postgres', q{CREATE SUBSCRIPTION s CONNECTION '} . ($node->connstr . ' dbname=postgres') . q{' PUBLICATION n});
$sub->wait_for_subscription_sync($node, 's');
$node->safe_psql('postgres', 'BEGIN; INSERT INTO h VALUES (200); INSERT INTO z VALUES (200); INSERT INTO h VALUES (201); INSERT INTO p1 VALUES (1); COMMIT');
$node->wait_for_catchup('s');
is($sub->safe_psql('postgres', 'SELECT a FROM h ORDER BY 1; SELECT a FROM p1'), "100\n200\n201\n1", 'heap tables are published');
($rc, $out, $err) = $sub->psql('postgres', 'CREATE PUBLICATION x FOR TABLE h');
like($err, $refused, 'refused below wal_level = logical, too');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');

for ($node, $sub)
{
	check_tables($_, 'at the end');
	$_->stop;
	log_is_clean($_);
}
done_testing();
