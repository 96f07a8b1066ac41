# Bytes of WAL per row of each operation, in a quiet cluster without full page
# images, and bytes of undo per transaction: not more than a budget.  (A budget that is exceeded names what grew;
# heap's figure stands beside it.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('budget', conf => q{
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# WAL of a statement in bytes per row.  What others write meanwhile (snapshots
# for standbys, discarded undo) is a matter of some hundred bytes.
sub wal
{
	my ($sql, $rows, $snapshot) = @_;

	# nobody's changes but those under the snapshot are younger than the horizon
	$node->poll_query_until('postgres',
		'SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()')
	  if !$snapshot;
	my $before = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres', $sql);
	# what was undone in the background counts too
	$node->poll_query_until('postgres', 'SELECT pg_zheap_undo_size() = 0')
	  if $sql =~ /ROLLBACK/;
	return $node->safe_psql('postgres',
		"SELECT ((pg_current_wal_insert_lsn() - '$before') / $rows.0)::numeric(20, 1)");
}

my @steps = (
	# what, SQL, rows, budget
	['INSERT .. SELECT', q{INSERT INTO t SELECT g, g, 0, repeat('a', 80) FROM generate_series(1, 20000) g}, 20000, 62],
	['UPDATE in place', 'UPDATE t SET v = v + 1', 20000, 92],
	['UPDATE in place again', 'UPDATE t SET v = v + 1', 20000, 92],
	['UPDATE, undone', 'BEGIN; UPDATE t SET v = v + 1; ROLLBACK', 20000, 107],
	['VACUUM with nothing to do', 'VACUUM t', 20000, 4],
	['SELECT FOR UPDATE', 'SELECT count(*) FROM (SELECT * FROM t FOR UPDATE) x', 20000, 92],
	['DELETE', 'DELETE FROM t WHERE id % 2 = 0', 10000, 59],
	['INSERT into the room of deleted rows', q{INSERT INTO t SELECT g, g, 0, repeat('b', 80) FROM generate_series(20001, 30000) g}, 10000, 176],
	['old snapshot', undef],
	['DELETE under an old snapshot', 'DELETE FROM t WHERE id % 4 = 1', 7500, 60],
	['INSERT into the room of rows that must be spilled', q{INSERT INTO t SELECT g, g, 0, repeat('c', 80) FROM generate_series(30001, 37000) g}, 7000, 205],
	['UPDATE of an indexed column', 'ALTER TABLE t ADD UNIQUE (k); UPDATE t SET k = k + 100000', 20000, 292],
	['no old snapshot', undef],
	['VACUUM', 'VACUUM t', 20000, 22]);

my %heap;
for my $am (qw(heap zheap))
{
	my $s = session($node);
	my $snapshot = 0;
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, k int, v int, t text) USING $am");
	for my $step (@steps)
	{
		my ($what, $sql, $rows, $budget) = @$step;
		if (!defined $sql)
		{
			undo_quiet($node, "before: $what") if $what eq 'old snapshot';
			ask($s, $what eq 'old snapshot' ?
				'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1' : 'COMMIT');
			$snapshot = $what eq 'old snapshot';
			undo_quiet($node, $what) if !$snapshot;
			next;
		}
		my $bytes = wal($sql, $rows, $snapshot);
		if ($am eq 'heap')
		{
			$heap{$what} = $bytes;
			next;
		}
		cmp_ok($bytes, '<=', $budget, "$what: $bytes bytes a row (heap: $heap{$what})");
	}
	finish_session($s);
}

# --- undo of pgbench's simple-update, of random accounts: whole pages, as an
# old snapshot keeps them
$node->safe_psql('postgres', q{
CREATE TABLE account (aid int PRIMARY KEY, bid int, balance int, filler char(84)) USING zheap;
CREATE TABLE history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)) USING zheap;
INSERT INTO account SELECT g, 1, 0, '' FROM generate_series(1, 10000) g});
undo_quiet($node, 'before the transactions');
my $s = session($node);
ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', q{
DO $$
BEGIN
	FOR i IN 1 .. 4000 LOOP
		UPDATE account SET balance = balance + i % 5000 WHERE aid = i * 7919 % 10000 + 1;
		INSERT INTO history VALUES (1, 1, i, i % 5000, now());
		COMMIT;
	END LOOP;
END $$});
my $undo = $node->safe_psql('postgres', 'SELECT pg_zheap_undo_size() / 4000.0');
cmp_ok($undo, '<=', 37, "$undo bytes of undo a transaction");
is(ask($s, 'SELECT count(*), sum(balance) FROM account'), '10000|0', 'which are enough');
finish_session($s);
log_is_clean($node);
$node->stop;
done_testing();
