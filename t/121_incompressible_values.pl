# Values that can't be compressed and change a little, beside heap twins: they
# aren't tried each time, and yet what can be compressed is: after SET STORAGE
# and SET COMPRESSION at once, after many small changes that make it
# compressible by and by, at last.  Rewrites, a crash and decoding of such values.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('incompressible', conf => q{
autovacuum = off
max_replication_slots = 4
});
$node->start;
my %table = (heap => 'h', zheap => 'z');
# hex digits, and bytes among which no three are twice in the first thousand
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE FUNCTION bin(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT decode(val(seed, 2 * n), 'hex') $$});

sub answers
{
	my ($sql) = @_;
	return map { (my $own = $sql) =~ s/@/$table{$_}/g;
		$node->safe_psql('postgres', "SET default_table_access_method = $_; $own") } qw(heap zheap);
}

# Do the same to both; the answers have to be alike.  @ is the table.
sub same
{
	my ($what, $sql) = @_;
	my ($heap, $zheap) = answers($sql);
	isnt($heap, '', "$what: heap answers");
	is($zheap, $heap, $what);
	return $heap;
}

my $state = q{SELECT id, n, pg_column_compression(t), pg_column_size(t), md5(t), substr(t, 3000, 20),
	pg_column_compression(b), pg_column_size(b), md5(b) FROM @ ORDER BY id};

# --- a little at a time
same('values as inserted', qq{
CREATE TABLE @ (id int PRIMARY KEY, n int, t text, b bytea);
INSERT INTO @ SELECT g, 0, val(g, 1500 + g * 900), bin(-g, 30000 - g * 900) FROM generate_series(1, 30) g;
$state});
for my $round (1 .. 12)
{
	same("round $round", qq{
UPDATE @ SET n = n + 1, t = overlay(t PLACING 'x$round' FROM 1 + (id * 97 * $round) % length(t)) WHERE id % 3 <> $round % 3;
BEGIN;
UPDATE @ SET t = 'y' || t, b = substr(b, 2);
ROLLBACK;
UPDATE @ SET b = overlay(b PLACING '\\x$round$round' FROM 1 + (id * 31 * $round) % length(b)) WHERE id % 4 = $round % 4;
UPDATE @ SET t = val(id + $round, length(t)) WHERE id = $round;
UPDATE @ SET t = t || 'z' WHERE id = $round + 1;
$state});
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM z WHERE pg_column_compression(t) IS NOT NULL OR pg_column_compression(b) IS NOT NULL}),
	0, 'none of them was compressed');

# --- what was never tried is tried at the first change
like(same('from storage external to extended', q{
CREATE TABLE @2 (id int PRIMARY KEY, t text);
ALTER TABLE @2 ALTER t SET STORAGE EXTERNAL;
INSERT INTO @2 SELECT g, repeat(val(g, 30), 300) FROM generate_series(1, 40) g;
UPDATE @2 SET t = overlay(t PLACING 'x' FROM 5);
SELECT DISTINCT coalesce(pg_column_compression(t), 'none') FROM @2;
ALTER TABLE @2 ALTER t SET STORAGE EXTENDED;
UPDATE @2 SET t = overlay(t PLACING 'y' FROM 5);
SELECT DISTINCT coalesce(pg_column_compression(t), 'none') FROM @2}), qr/^none\npglz$/, 'compressed at once');

# --- nor is what another method couldn't
SKIP:
{
	skip 'no lz4', 3 if $node->safe_psql('postgres', q{SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'}) ne 't';
	# pglz gives up at the random beginning
	like(same('from pglz to lz4', q{
CREATE TABLE @3 (id int PRIMARY KEY, b bytea);
INSERT INTO @3 SELECT g, bin(g, 2000) || convert_to(repeat('and so on', 2000), 'UTF8') FROM generate_series(1, 40) g;
DELETE FROM @3 WHERE pg_column_compression(b) IS NOT NULL;
UPDATE @3 SET b = overlay(b PLACING '\x0102' FROM 12000);
SELECT DISTINCT coalesce(pg_column_compression(b), 'none') FROM @3;
ALTER TABLE @3 ALTER b SET COMPRESSION lz4;
UPDATE @3 SET b = overlay(b PLACING '\x0203' FROM 12000);
SELECT DISTINCT coalesce(pg_column_compression(b), 'none') FROM @3;
SELECT count(*) > 20 FROM @3}), qr/^none\nlz4\nt$/, 'compressed at once');
}

# --- by small steps
same('a value that becomes compressible', q{
CREATE TABLE @4 (id int PRIMARY KEY, t text);
INSERT INTO @4 VALUES (1, val(1, 10000));
DO $$ BEGIN FOR i IN 0 .. 24 LOOP
UPDATE @4 SET t = overlay(t PLACING repeat('0', 400) FROM 1 + i * 400);
END LOOP; END $$;
SELECT md5(t) FROM @4});
is($node->safe_psql('postgres', q{
DO $$ BEGIN FOR i IN 1 .. 1000 LOOP
UPDATE z4 SET t = overlay(t PLACING (i % 10)::text FROM 1);
EXIT WHEN (SELECT pg_column_compression(t) IS NOT NULL FROM z4);
END LOOP; END $$;
SELECT pg_column_compression(t) FROM z4}), 'pglz', 'is compressed at last');

# --- rewritten under an old snapshot; those of @5 were never tried
same('values stored without a try', q{
CREATE TABLE @5 (id int PRIMARY KEY, n int, t text, b bytea);
ALTER TABLE @5 ALTER t SET STORAGE EXTERNAL;
ALTER TABLE @5 ALTER b SET STORAGE EXTERNAL;
INSERT INTO @5 SELECT id, n, val(id, 9000), b FROM @;
ALTER TABLE @5 ALTER t SET STORAGE EXTENDED;
ALTER TABLE @5 ALTER b SET STORAGE EXTENDED;
SELECT count(*) FROM @5});
my $sum = q{SELECT count(*), sum(hashtextextended(t, 0)::numeric), sum(hashtextextended(b::text, 0)::numeric) FROM z};
for my $rewrite ('VACUUM FULL @', 'CLUSTER @ USING @_pkey')
{
	my $old = $node->background_psql('postgres');
	my $before = $node->safe_psql('postgres', $sum);
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	same("$rewrite: changes behind the snapshot", qq{
UPDATE @ SET t = overlay(t PLACING 'old' FROM 100), b = overlay(b PLACING '\\x00' FROM 7) WHERE id > 5; $state});
	(my $rewrite5 = $rewrite) =~ s/@/\@5/g;
	same("$rewrite5: changes behind the snapshot", q{UPDATE @5 SET n = n + 1; UPDATE @5 SET t = overlay(t PLACING 'old' FROM 100) WHERE id > 20; SELECT 1});
	same($rewrite, "$rewrite; $rewrite5; $state");
	same("$rewrite5, changed afterwards", q{UPDATE @5 SET b = overlay(b PLACING '\\x000102' FROM 100); UPDATE @5 SET t = overlay(t PLACING 'new' FROM 100) WHERE id < 25; SELECT id, n, md5(t), md5(b) FROM @5 ORDER BY id});
	is($old->query_safe($sum), $before, "$rewrite: the old snapshot has its values");
	same("$rewrite, changed afterwards", qq{UPDATE @ SET t = overlay(t PLACING 'new' FROM 100), n = n - 1; $state});
	is($old->query_safe($sum), $before, "$rewrite: and has them still");
	$old->query_safe('COMMIT');
	$old->quit;
}

# --- read for the first time after a checkpoint: nothing is logged for that
same('fresh values', q{
CREATE TABLE @8 (id int PRIMARY KEY, b bytea);
INSERT INTO @8 SELECT g, bin(g, 20000) FROM generate_series(1, 20) g;
SELECT count(*) FROM @8});
my $before = session($node);	# keeps their writers from being visible to all
ask($before, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h8');
$node->safe_psql('postgres', "UPDATE $_ SET b = bin(-id, 20000)") for qw(h8 z8);
$node->safe_psql('postgres', 'CHECKPOINT');
my $lsn = wal_position($node);
same('they are read', 'SELECT id, md5(b) FROM @8 ORDER BY id');
$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'flushed', '')});
my $wal = wal_since($node, $lsn);
like($wal, qr/Transaction.*COMMIT/, 'WAL is flushed');
for my $am (qw(heap zheap))
{
	my $file = $node->safe_psql('postgres', "SELECT pg_relation_filenode(reltoastrelid) FROM pg_class WHERE relname = '$table{$am}8'");
	unlike($wal, qr{rel \d+/\d+/$file\b}, "$am: no image of a page of chunks");
}
finish_session($before);

# --- killed, decoded
$node->append_conf('postgresql.conf', 'wal_level = logical');
$node->stop('immediate');
$node->start;
same('after a crash', $state);
SKIP:
{
	my ($code) = $node->psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});
	skip 'no test_decoding', 2 if $code != 0;
	answers(q{ALTER TABLE @ REPLICA IDENTITY FULL;
UPDATE @ SET n = 1000 WHERE id < 4;
UPDATE @ SET t = overlay(t PLACING 'decoded' FROM 50) WHERE id < 6;
DELETE FROM @ WHERE id = 1});
	$node->safe_psql('postgres', q{CREATE TABLE changes AS SELECT row_number() OVER () AS n, data FROM pg_logical_slot_get_changes('s', NULL, NULL)});
	# long values by their length and digest
	my ($heap, $zheap) = map { $node->safe_psql('postgres', qq{
SELECT string_agg(CASE WHEN length(w) < 100 THEN w ELSE length(w) || ':' || md5(w) END, ' ' ORDER BY l.n, o.n)
	FROM changes l, regexp_split_to_table(l.data, ' ') WITH ORDINALITY o(w, n) WHERE l.data ~ '^table public.$_:' GROUP BY l.n ORDER BY l.n}) }
		('h', 'z');
	$zheap =~ s/table public.z:/table public.h:/g;
	is(scalar(() = $heap =~ /^table public.h: /mg), 9, 'changes of heap are decoded');
	# a statement's rows come in the order in which they lie
	is(join("\n", sort split /\n/, $zheap), join("\n", sort split /\n/, $heap), 'those of zheap are the same');
}

$node->stop;
$node->start;
is($node->safe_psql('postgres', "SELECT c FROM unnest('{z,z2,z4,z5}'::regclass[]) t, LATERAL zheap_check(t) c"), '', 'zheap_check');
$node->stop;
done_testing();
