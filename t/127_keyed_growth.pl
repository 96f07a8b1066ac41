# An index over keys that change at random, each time of a row on another page:
# what nobody needs any more is deleted before leaves split, so the index hardly
# grows; under an old snapshot it does, and loses nothing that the snapshot needs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $rows = 20000;
my $node = zheap_node('growth', conf => "autovacuum = off\nfsync = off\nzheap.update_indexed_in_place = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am;' . keyed_allow());

# each a transaction of its own
sub change
{
	my ($table, $seed) = @_;
	my $sql = '';

	for my $i (1 .. 0.75 * $rows)
	{
		$sql .= sprintf("UPDATE %s SET a = %d WHERE id = %d;\n", $table,
			($i * 7919 + $seed) * 104729 % 1000000, ($i * 6007 + $seed) % $rows + 1);
	}
	$node->safe_psql('postgres', $sql);
	return;
}

sub size { return $node->safe_psql('postgres', "SELECT pg_relation_size('$_[0]')") }

sub sum_by_index
{
	my ($table) = @_;
	return "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(a), sum(id) FROM $table WHERE a >= 0";
}

sub sum_by_table
{
	my ($table) = @_;
	return "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*), sum(a), sum(id) FROM $table WHERE a >= 0";
}

for my $t ('quiet', 'old')
{
	$node->safe_psql('postgres', qq{
CREATE TABLE $t (id int PRIMARY KEY, a int, n int, t text) USING zheap;
INSERT INTO $t SELECT g, (g * 7919::bigint) % 1000000, 0, repeat('x', 40) FROM generate_series(1, $rows) g;
CREATE INDEX ${t}_a ON $t (a);
CREATE INDEX ${t}_n ON $t (n);
VACUUM ANALYZE $t;});
	$node->safe_psql('postgres', "CALL keyed_allow('$t')");
}

my ($size, $other) = (size('quiet_a'), size('quiet_n'));
change('quiet', 1);
cmp_ok(size('quiet_a'), '<', 1.1 * $size, 'the index over changed keys grows by little');
change('quiet', 2);
cmp_ok(size('quiet_a'), '<', 1.1 * $size, 'and then no more');
$node->append_conf('postgresql.conf', "zheap.debug_set = 'old-key-hints=1'");
$node->reload;
change('quiet', 5);
cmp_ok(size('quiet_a'), '<', 1.5 * $size, 'nor by much where it is not noted which entries are old');
is(size('quiet_n'), $other, 'the other one does not');
is($node->safe_psql('postgres', sum_by_index('quiet')), $node->safe_psql('postgres', sum_by_table('quiet')), 'all rows by index');

my $s = session($node);
ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = ask($s, sum_by_index('old'));
like($before, qr/^$rows\|/, 'an old snapshot has all rows');
change('old', 3);
is(ask($s, sum_by_index('old')), $before, 'it has them still, by index');
is(ask($s, sum_by_table('old')), $before, 'and by table');
ask($s, 'COMMIT');
finish_session($s);
$size = size('old_a');
change('old', 4);
cmp_ok(size('old_a'), '<', 1.1 * $size, 'when the snapshot has gone, what it had kept makes room');
is($node->safe_psql('postgres', sum_by_index('old')), $node->safe_psql('postgres', sum_by_table('old')), 'all rows by index');
check_tables($node, 'at the end');
$node->stop;
done_testing();
