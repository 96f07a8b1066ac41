# Rows in WAL as differences from the row before them: replayed page by page by
# a standby (wal_consistency_checking), from page images and without, and after
# a crash; the rows are the same everywhere.  That differences are logged at all
# is seen by the bytes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
autovacuum = off
wal_consistency_checking = 'zheap'
checkpoint_timeout = 1h
max_wal_size = 4GB
});
$node->start;
my $standby = zheap_standby($node, slot => 'replay');
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# Rows beside each other that are alike in all manners of ways.
my $rows = q{
CREATE TABLE rows (id int, a text, b timestamptz, c text, d numeric) USING zheap;
-- equal; a changed byte; many
INSERT INTO rows SELECT 1, 'same', '2024-01-01', 'same', 1 FROM generate_series(1, 50);
INSERT INTO rows SELECT g, 'same', timestamptz '2024-01-01' + g * interval '1 s', 'same', g FROM generate_series(1, 300) g;
-- longer and shorter at the front, in the middle, at the end; empty; alone
INSERT INTO rows SELECT 1, repeat('x', g % 17), '2024-01-01', 'tail', 1 FROM generate_series(1, 100) g;
INSERT INTO rows SELECT 1, 'head', '2024-01-01', repeat('y', g * 7 % 90), 1 FROM generate_series(1, 100) g;
INSERT INTO rows SELECT 1, repeat('x', g % 40) || g || repeat('z', 600), '2024-01-01', '', g FROM generate_series(1, 100) g;
-- numbers of more than one byte, literals of all lengths
INSERT INTO rows SELECT g, repeat('ab', 250) || repeat(chr(65 + g % 26), g % 300) || repeat('cd', 250), NULL, 'x', 1 FROM generate_series(1, 120) g;
-- nulls here and there: other bitmaps, and other numbers of columns
INSERT INTO rows SELECT g, CASE WHEN g % 3 = 0 THEN 'x' END, CASE WHEN g % 5 = 0 THEN now() END, CASE WHEN g % 2 = 0 THEN 'y' END, g FROM generate_series(1, 100) g;
INSERT INTO rows (id) SELECT g FROM generate_series(1, 50) g;
ALTER TABLE rows ADD e int DEFAULT 7;
INSERT INTO rows SELECT g FROM generate_series(1, 20) g;
-- nothing alike
INSERT INTO rows SELECT g, md5(g::text) || md5((-g)::text), now() + g * interval '1 d', md5(('c' || g)), g * 1e10, g * 12345 FROM generate_series(1, 200) g;
-- out of line, and the largest that are not
INSERT INTO rows SELECT g, (SELECT string_agg(md5((g * h)::text), '') FROM generate_series(1, 200) h) FROM generate_series(1, 5) g;
ALTER TABLE rows ALTER a SET STORAGE PLAIN;
INSERT INTO rows SELECT g, repeat('p', 8080 + g % 2) FROM generate_series(1, 6) g;
INSERT INTO rows SELECT g, repeat('p', 3990) FROM generate_series(1, 6) g;
};

# The row before has ended, shrunk, grown, was rolled back, isn't there.
my $before = q{
CREATE TABLE before (id int, t text) USING zheap;
INSERT INTO before SELECT g, repeat('q', 60) FROM generate_series(1, 300) g;
INSERT INTO before VALUES (0, repeat('q', 60));
DELETE FROM before WHERE id = 0;
INSERT INTO before VALUES (0, repeat('q', 60));
UPDATE before SET t = 'short' WHERE id = 0;
INSERT INTO before VALUES (1, 'short');
UPDATE before SET t = repeat('long', 30) WHERE id = 1;
INSERT INTO before VALUES (2, repeat('long', 30));
BEGIN; INSERT INTO before VALUES (3, repeat('long', 30)); ROLLBACK;
INSERT INTO before VALUES (4, repeat('long', 30));
BEGIN;
INSERT INTO before VALUES (5, repeat('long', 30));
SAVEPOINT s;
INSERT INTO before VALUES (6, repeat('long', 30));
ROLLBACK TO s;
INSERT INTO before VALUES (7, repeat('long', 30));
SELECT count(*) FROM (SELECT * FROM before WHERE id = 7 FOR UPDATE) x;
INSERT INTO before VALUES (8, repeat('long', 30));
COMMIT;
DELETE FROM before WHERE id % 2 = 0;
VACUUM before;
INSERT INTO before SELECT g, repeat('q', 59) || g FROM generate_series(1, 200) g;
CREATE UNIQUE INDEX ON before (id) WHERE id > 1000;
INSERT INTO before SELECT g, 'conflict' FROM generate_series(1001, 1050) g ON CONFLICT DO NOTHING;
INSERT INTO before SELECT g, 'conflict' FROM generate_series(1040, 1060) g ON CONFLICT (id) WHERE id > 1000 DO UPDATE SET t = 'again';
-- rows that move, on their page and to others
UPDATE before SET id = id + 5000 WHERE id > 1000;
UPDATE before SET id = id + 1000, t = t || 'x' WHERE id > 5000;
UPDATE before SET t = repeat('grown', 100) || id WHERE id % 4 = 1;
CREATE TABLE moved (LIKE before) USING zheap;
INSERT INTO moved SELECT g, repeat('m', 90) || g FROM generate_series(1, 1000) g;
CREATE INDEX ON moved (id);
UPDATE moved SET id = id + 1;
UPDATE moved SET id = id + 1, t = 'x' || t WHERE id % 3 = 0;
BEGIN; UPDATE moved SET id = -id; ROLLBACK;
};

my $file = $node->basedir . '/rows.copy';
my $copy = qq{
CREATE TABLE copied (LIKE rows) USING zheap;
COPY rows TO '$file';
COPY copied FROM '$file';
DELETE FROM copied WHERE id % 3 = 0;
VACUUM copied;
COPY copied FROM '$file';
CREATE TABLE filled (LIKE before) USING zheap;
INSERT INTO filled SELECT * FROM before;
};

sub same_rows
{
	my ($other, $what) = @_;

	my $tables = q{SELECT count(*), sum(hashtextextended(t::text || ctid::text, 0)) FROM %s t};
	for my $table (qw(rows before copied filled moved))
	{
		my $want = $node->safe_psql('postgres', sprintf($tables, $table));

		cmp_ok((split /\|/, $want)[0], '>', 100, "$table has rows");
		is($other->safe_psql('postgres', sprintf($tables, $table)), $want, "$what: $table");
	}
}

for my $images (qw(on off))
{
	set_conf($node, full_page_writes => $images);
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS rows, before, copied, filled, moved');
	for my $part ($rows, $before, $copy)
	{
		$node->safe_psql('postgres', $part);
		# the next changes of pages that are there are their first ones
		$node->safe_psql('postgres', 'CHECKPOINT');
	}
	$node->safe_psql('postgres', q{
INSERT INTO rows SELECT 1, 'same', '2024-01-01', 'same', 1 FROM generate_series(1, 5);
INSERT INTO before VALUES (9, repeat('long', 30)), (10, repeat('long', 30));});
	$node->safe_psql('postgres', "COPY copied FROM '$file'");
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	same_rows($standby, "standby, full_page_writes = $images");

	kill_server($node);
	start_after_kill($node);
	$node->safe_psql('postgres', 'SELECT 1');
	same_rows($standby, "after a crash, full_page_writes = $images");
	check_tables($node, "full_page_writes = $images");
}

# Bytes: a record without data takes 50; the rows have 100.
set_conf($node, full_page_writes => 'off', wal_consistency_checking => '');
$node->safe_psql('postgres', q{
CREATE TABLE bytes (a int, t text) USING zheap;
CREATE TABLE source (a int, t text) USING heap;
INSERT INTO source SELECT g, repeat('x', 90) FROM generate_series(1, 5000) g;
VACUUM source;});
for my $way ([ 'INSERT', 'INSERT INTO bytes SELECT * FROM source', 62 ],
	[ 'COPY', qq{COPY bytes FROM '$file'}, 10 ])
{
	my ($what, $sql, $budget) = @$way;

	$node->safe_psql('postgres', "COPY source TO '$file'");
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', $sql);
	my $bytes = $node->safe_psql('postgres', "SELECT ((pg_current_wal_insert_lsn() - '$lsn') / 5000.0)::numeric(10, 1)");
	cmp_ok($bytes, '<=', $budget, "$what: $bytes bytes of WAL per row");
}
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a), min(length(t)) FROM bytes'), '10000|5000|90', 'all rows are there');

$standby->stop;
$node->stop;
log_is_clean($_) for $node, $standby;
done_testing();
