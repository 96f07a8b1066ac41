# Large values, beside heap twins: methods of compression, storage and
# toast_tuple_target say what goes out of line and how long it is; a slice is read
# without the rest; under an old snapshot the space of replaced values is used
# again, while heap's grows; autovacuum follows the toast table's own settings;
# pg_dump; values saved without WAL (wal_level = minimal) and a kill -9.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('large', conf => q{
autovacuum_naptime = 1s
});
$node->start;
my @am = qw(heap zheap);
my %table = (heap => 'h', zheap => 'z');
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE FUNCTION easy(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(repeat(md5(seed::text), n / 32 + 1), n) $$;
CREATE FUNCTION toast_of(t regclass) RETURNS regclass LANGUAGE sql AS
$$ SELECT reltoastrelid::regclass FROM pg_class WHERE oid = $1 $$;
CREATE FUNCTION chunks_of(t regclass) RETURNS TABLE (chunk_id oid, chunk_data bytea) LANGUAGE plpgsql AS
$$ BEGIN RETURN QUERY EXECUTE format('SELECT chunk_id, chunk_data FROM %s', toast_of(t)); END $$});

# Do the same to both; the answers have to be alike.  @ is the table.
sub same
{
	my ($what, $sql) = @_;
	my %answer;
	for my $am (@am)
	{
		(my $own = $sql) =~ s/@/$table{$am}/g;
		$answer{$am} = $node->safe_psql('postgres', "SET default_table_access_method = $am; $own");
	}
	isnt($answer{heap}, '', "$what: heap answers");
	return is($answer{zheap}, $answer{heap}, $what);
}

# --- compression, storage
my $sizes = q{SELECT id, pg_column_compression(d), pg_column_size(d), pg_column_compression(s), pg_column_size(s),
	pg_column_size(m), pg_column_size(e), md5(d), md5(s), md5(m), md5(e), substr(d, 30000, 40), substr(s, 90000, 5), right(m, 3)
	FROM @ ORDER BY id};
my $rows = q{SELECT id, easy(id::int, n), easy(-id::int, n), easy(id::int, n), easy(id::int, n)
	FROM unnest('{1, 900, 1500, 3000, 40000, 100000, 1500000}'::int[]) WITH ORDINALITY u(n, id)};
my @methods = ('pglz');
push @methods, 'lz4' if $node->safe_psql('postgres', q{SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'}) eq 't';
note "compression: @methods";
for my $method (@methods)
{
	for my $other (@methods)
	{
		same("$method, $other by default", qq{
SET default_toast_compression = $other;
CREATE TABLE @ (id int PRIMARY KEY, d text, s text COMPRESSION $method, m text, e text);
ALTER TABLE @ ALTER m SET STORAGE MAIN, ALTER e SET STORAGE EXTERNAL;
INSERT INTO @ $rows;
$sizes});
		same("$method, changed to $other", qq{
ALTER TABLE @ ALTER s SET COMPRESSION $other;
ALTER TABLE @ ALTER e SET STORAGE EXTENDED;
UPDATE @ SET s = s || 'x', e = e || 'x' WHERE id % 2 = 0;
UPDATE @ SET m = 'other' WHERE id = 1;
$sizes});
		same("$method, rewritten", "VACUUM FULL @; $sizes");
		ok(check_tables($node, "$method, $other"), 'sound');
		$node->safe_psql('postgres', 'DROP TABLE h, z');
	}
}

# --- what goes out of line; no length is near a threshold, for heap's rows have
# a longer header
for my $target (128, 2032, 4080)
{
	same("toast_tuple_target = $target", qq{
CREATE TABLE @ (id int PRIMARY KEY, a text, b text) WITH (toast_tuple_target = $target);
ALTER TABLE @ ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL;
INSERT INTO @ SELECT row_number() OVER (), val(la, la), val(lb, lb)
	FROM unnest('{20, 300, 900, 1500, 2500, 3500, 4500}'::int[]) la, unnest('{10, 400, 1300}'::int[]) lb;
SELECT count(*), count(DISTINCT chunk_id), sum(length(chunk_data)) FROM chunks_of('\@')});
	$node->safe_psql('postgres', 'DROP TABLE h, z');
}

# --- slices (of text they begin where it does, if characters differ in length)
$node->safe_psql('postgres', q{
CREATE TABLE z (id int PRIMARY KEY, t bytea) USING zheap;
ALTER TABLE z ALTER t SET STORAGE EXTERNAL;
INSERT INTO z VALUES (1, decode(val(1, 6000000), 'hex'))});

sub pages_for
{
	my ($expression) = @_;
	my $plan = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT $expression FROM z WHERE id = 1");
	$plan =~ /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/ or die $plan;
	return ($1 // 0) + ($2 // 0);
}
my $whole = pages_for('md5(t)');
cmp_ok($whole, '>', 300, 'the whole value: each page of it');
for my $at (1, 1500000, 2999990)
{
	my $some = pages_for("substr(t, $at, 10)");
	cmp_ok($some, '<', 100, "a slice at $at: $some pages of $whole");
}
$node->safe_psql('postgres', 'DROP TABLE z');

# --- an old snapshot
$node->safe_psql('postgres', qq{
CREATE TABLE $table{$_} (id int PRIMARY KEY, t text) USING $_ WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off);
ALTER TABLE $table{$_} ALTER t SET STORAGE EXTERNAL;
INSERT INTO $table{$_} SELECT g, val(g, 4000 + g * 200) FROM generate_series(1, 60) g;}) for @am;
my $digest = 'SELECT count(*), sum(hashtextextended(t, id)::numeric) FROM z';
my $old = session($node);
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
my (%early, %late);
my $round = 0;

sub sizes
{
	return map { $_ => $node->safe_psql('postgres', "SELECT pg_relation_size(toast_of('$table{$_}')) / 8192") } @am;
}

sub replace_all
{
	for (1 .. $_[0])
	{
		$round++;
		$node->safe_psql('postgres', "UPDATE $table{$_} SET t = val(id + $round, length(t))") for @am;
	}
}
replace_all(4);
%early = sizes();
replace_all(16);
%late = sizes();
cmp_ok($late{heap}, '>', 3 * $early{heap}, 'heap grows');
cmp_ok($late{zheap}, '<', 1.5 * $early{zheap}, "zheap does not: $early{zheap}, then $late{zheap} pages");
is(ask($old, $digest), $before, 'the old snapshot sees what was replaced');
ask($old, 'COMMIT');
finish_session($old);
undo_quiet($node, 'after the old snapshot');
is($node->safe_psql('postgres', 'SELECT count(*) FROM h JOIN z USING (id) WHERE h.t = z.t'), 60, "heap's values");
ok(check_tables($node, 'after the old snapshot'), 'sound');

# --- autovacuum of the toast table, by its own settings
$node->safe_psql('postgres', q{
ALTER TABLE z SET (toast.autovacuum_enabled = on, toast.autovacuum_vacuum_threshold = 10, toast.autovacuum_vacuum_scale_factor = 0);
UPDATE z SET t = val(id, length(t))});
ok( $node->poll_query_until('postgres',
		"SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = toast_of('z')"),
	'autovacuum of the toast table');
is($node->safe_psql('postgres', "SELECT autovacuum_count FROM pg_stat_all_tables WHERE relname = 'z'"), '0', 'not of the table');

# --- ANALYZE; of a toast table it is refused
same('ANALYZE', q{
CREATE TABLE @2 (id int PRIMARY KEY, t text, b bytea, n text);
INSERT INTO @2 SELECT g, val(g % 20, 900 + g % 20 * 300), convert_to(easy(g, 100 * g), 'UTF8'),
	CASE WHEN g % 3 = 0 THEN easy(7, 200000) END FROM generate_series(1, 200) g;
DELETE FROM @2 WHERE id % 10 = 0;
ANALYZE @2;
SELECT attname, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs
	FROM pg_stats WHERE tablename = '@2' ORDER BY attname;
SELECT reltuples FROM pg_class WHERE relname = '@2'});
my %told;
for my $am (@am)
{
	my $toast = $node->safe_psql('postgres', "SELECT relname FROM pg_class WHERE oid = toast_of('$table{$am}2')");
	my $before = $node->safe_psql('postgres', "SELECT reltuples, relpages FROM pg_class WHERE relname = '$toast'");
	my ($rc, $out, $err) = $node->psql('postgres', "ANALYZE pg_toast.$toast");
	$told{$am} = "$rc " . $err =~ s/$toast/toast table/gr;
	is($node->safe_psql('postgres', "SELECT reltuples, relpages FROM pg_class WHERE relname = '$toast'"), $before, "$am: ANALYZE of a toast table does nothing");
}
like($told{heap}, qr/WARNING:  skipping/, 'and says so');
is($told{zheap}, $told{heap}, 'as with heap');

# --- pg_dump
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('copy') ], 'and restored');
is($node->safe_psql('copy', $digest), $node->safe_psql('postgres', $digest), 'the same values');
my $toasts = q{SELECT a.amname, t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
JOIN pg_am a ON a.oid = t.relam WHERE c.relname IN ('z', 'h') ORDER BY c.relname};
my $settings = $node->safe_psql('postgres', $toasts);
like($settings, qr/^zheap\|\{.*vacuum_threshold=10/m, 'a zheap with settings');
is($node->safe_psql('copy', $toasts), $settings, 'its toast table, too');

# --- without WAL
for my $threshold (0, '1GB')
{
	$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = $threshold");
	$node->restart;
	for my $am (@am)
	{
		$node->safe_psql('postgres', qq{
DROP TABLE $table{$am};
BEGIN;
CREATE TABLE $table{$am} (id int PRIMARY KEY, t text) USING $am;
ALTER TABLE $table{$am} ALTER t SET STORAGE EXTERNAL;
INSERT INTO $table{$am} SELECT g, val(g, g * 1000) FROM generate_series(1, 40) g;
UPDATE $table{$am} SET t = overlay(t placing 'new' from 100) WHERE id % 3 = 0;
SAVEPOINT s;
DELETE FROM $table{$am} WHERE id % 2 = 0;
INSERT INTO $table{$am} SELECT g, val(g, g * 1000) FROM generate_series(41, 50) g;
ROLLBACK TO s;
DELETE FROM $table{$am} WHERE id > 35;
COMMIT;
UPDATE $table{$am} SET t = overlay(t placing 'newer' from 100) WHERE id % 5 = 0});
	}
	kill_server($node);
	ok(start_after_kill($node), "wal_skip_threshold = $threshold: recovered");
	same("wal_skip_threshold = $threshold", 'SELECT id, md5(t) FROM @ ORDER BY id');
	ok(check_tables($node, "wal_skip_threshold = $threshold"), 'sound');
}

$node->stop;
log_is_clean($node);
done_testing();
