# Writers that pass a long history of transactions that didn't abort, with the
# page locked: one that looks for the lockers of a row, one that finds out how a
# row ended for which it waited, one whose savepoint takes over from its own
# transaction.  They can be cancelled in the middle, and go on after interrupts
# that cancel nothing.  Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('writers', conf => q{
autovacuum = off
fsync = off
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b int) USING zheap;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 5) g;});

# another row of the page changes again and again
my $many = 'DO $$ BEGIN FOR i IN 1..6000 LOOP UPDATE t SET b = i WHERE a = 2; END LOOP; END $$;';

my $other = session($node);
ask($other, "BEGIN; SELECT FROM t WHERE a = 1 FOR KEY SHARE; $many");
interrupt_walk($node, 'who looks for lockers', qr/could not obtain lock on row/,
	go => sub { send_sql($_[0], 'SELECT b FROM t WHERE a = 1 FOR UPDATE NOWAIT') });
ask($other, 'ROLLBACK');
undo_quiet($node, 'after the locker');

interrupt_walk($node, 'who waited for a row that is deleted', qr/^0 rows$/m,
	start => sub {
		my ($s, $pid) = @_;

		ask($other, 'BEGIN; DELETE FROM t WHERE a = 1');
		send_sql($s, q{WITH w AS (UPDATE t SET b = b + 1 WHERE a = 1 RETURNING a)
SELECT count(*) || ' rows' FROM w});
		ok( $node->poll_query_until('postgres',
				"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"),
			'a writer waits');
		ask($other, $many);
	},
	go => sub { ask($other, 'COMMIT') },
	end => sub { ask($other, 'INSERT INTO t VALUES (1, 0)') });
undo_quiet($node, 'after the deletions');

interrupt_walk($node, 'whose savepoint takes over', qr/^7$/m,
	start => sub { ask($_[0], "BEGIN; $many SAVEPOINT s") },
	go => sub { send_sql($_[0], 'UPDATE t SET b = 7 WHERE a = 3 RETURNING b') });

is($node->safe_psql('postgres', 'SELECT * FROM t ORDER BY a'),
	"1|0\n2|6000\n3|0\n4|0\n5|0", 'rows at the end');
finish_session($other);
undo_quiet($node, 'at the end');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->stop;
log_is_clean($node);
done_testing();
