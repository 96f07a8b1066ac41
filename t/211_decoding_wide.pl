# A row of ours that is larger in heap's form than any row of heap may be (values
# aren't padded here): it is decoded whole, also when it was spilled to disk, with
# and without a value of the toast table in it.  Core asserts that there is none of
# the latter: a server with assertions says so, and doesn't go down.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('decoding_wide', conf => q{
wal_level = logical
logical_decoding_work_mem = 64kB
autovacuum = off});
$node->start;
plan skip_all => 'test_decoding is not installed'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'test_decoding.so'}) eq '0';
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE w (id int PRIMARY KEY, big text) USING zheap;
DO $$ DECLARE s text := '';
BEGIN
	FOR i IN 1..700 LOOP s := s || format(', ADD c%s "char" DEFAULT ''a'', ADD d%s int8 DEFAULT 7', i, i); END LOOP;
	EXECUTE 'ALTER TABLE w ' || substr(s, 2);
END $$;
ALTER TABLE w ALTER big SET STORAGE EXTERNAL;
SELECT pg_create_logical_replication_slot('s', 'test_decoding')});

# Of each change its kind, its value, and how many of the other columns are whole.
my $get = q{SELECT (regexp_match(data, ': (INSERT|UPDATE|DELETE)'))[1],
	length((regexp_match(data, 'big\[text\]:''(b*)'''))[1]),
	regexp_count_of(data, 'd[0-9]+\[bigint\]:7'), regexp_count_of(data, 'c[0-9]+\["char"\]:''a''')
	FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1', 'include-xids', '0') WHERE data LIKE 'table%'};
$node->safe_psql('postgres', q{CREATE FUNCTION regexp_count_of(t text, r text) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM regexp_matches(t, r, ''g'')'});

$node->safe_psql('postgres', q{INSERT INTO w SELECT g, 'bbb' FROM generate_series(1, 20) g; UPDATE w SET big = 'bbbb' WHERE id = 3});
is($node->safe_psql('postgres', $get), join("\n", ('INSERT|3|700|700') x 20, 'UPDATE|4|700|700'), 'rows without values out of line');

# the value doesn't fit into the row, so its chunks come first
$node->safe_psql('postgres', q{INSERT INTO w SELECT g, repeat('b', 5000) FROM generate_series(21, 30) g; UPDATE w SET big = repeat('b', 6000) WHERE id = 22});
if ($node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	for my $time ('once', 'again')
	{
		my ($rc, $out, $err) = $node->psql('postgres', $get);
		like($err, qr/cannot decode a row of 11\d{3} bytes that has values out of line, maximum 8160\b/, "the limit is named $time");
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM w'), '30', 'the server is up');
}
else
{
	is($node->safe_psql('postgres', $get), join("\n", ('INSERT|5000|700|700') x 10, 'UPDATE|6000|700|700'), 'rows with values out of line');
}
$node->stop;
done_testing();
