# Rollback of a large transaction, interrupted by kill -9, twice: the server
# opens at once, shows the right rows at once, and undoes in the background.  A
# lock on the table that was changed first keeps the undoing from its end, so
# that each kill hits its middle, however fast the machine is.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZheapTest;

my $node = zheap_node('rollback', conf => q{
autovacuum = off
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE first (v int) USING zheap;
INSERT INTO first VALUES (0);
CREATE TABLE r (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO r SELECT g, g, repeat('r', 50) FROM generate_series(1, 200000) g;
CREATE INDEX r_c ON r (c);
VACUUM r;
});
my $sum = 'SELECT count(*), sum(c), sum(length(t)), min(k), max(k) FROM r';
my $before = $node->safe_psql('postgres', $sum);
my $blocks = "SELECT pg_relation_size('r') / 8192";

# of every 50th page: not undone yet
my $left = q{SELECT count(*) FROM generate_series(0, pg_relation_size('r') / 8192 - 1, 50) b
	WHERE EXISTS (SELECT FROM zheap_page_slots('r', b) WHERE status = 'aborted')};

# what is undone last is not undone yet
my $unended = q{SELECT count(*) FROM zheap_page_slots('first', 0) WHERE status = 'aborted'};

my $large = q{BEGIN;
UPDATE first SET v = v + 1;
UPDATE r SET t = upper(t) WHERE k > 100;
SAVEPOINT a;
DELETE FROM r WHERE k % 7 = 0;
UPDATE r SET c = -c WHERE k % 11 = 1;
RELEASE a;
INSERT INTO r SELECT g, g, 'new' FROM generate_series(300001, 330000) g;
};

# --- ROLLBACK answers at once
set_conf($node, 'zheap.rollback_paused' => 'on');
my $s = session($node);
is(ask($s, $large), '', 'a large transaction');
my $begin = time;
ask($s, 'ROLLBACK');
note(sprintf 'ROLLBACK was answered after %.2f s', time - $begin);
cmp_ok($node->safe_psql('postgres', $left), '>', 0, 'ROLLBACK is answered before pages are undone');
is($node->safe_psql('postgres', $sum), $before, 'and everything is as before');
cmp_ok($node->safe_psql('postgres', 'SELECT pg_zheap_undo_size()'), '>', 10_000_000, 'but not undone yet');

# --- killed in the middle of the undoing, twice
for my $round (1 .. 2)
{
	my ($watch, $locker) = (session($node), session($node));
	my $todo = ask($watch, $left);
	is(ask($locker, 'BEGIN; LOCK TABLE first IN ACCESS EXCLUSIVE MODE'), '', "the end is locked out in round $round");
	$node->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
	$node->reload;
	my $now = $todo;
	while ($now > 0 && $now > $todo - 3)
	{
		$now = ask($watch, $left);
	}
	kill_server($node);
	finish_session($_) for $watch, $locker;
	$node->append_conf('postgresql.conf', "zheap.rollback_paused = on\n");
	$begin = time;
	ok(start_after_kill($node), "start after kill $round");
	note(sprintf '%d of %d pages were to be undone, then %d, start took %.1f s',
		$todo, 1 + $node->safe_psql('postgres', $blocks) / 50, $now, time - $begin);
	cmp_ok($node->safe_psql('postgres', $unended), '>', 0, 'which was in the middle');
	is($node->safe_psql('postgres', "$sum; SELECT v FROM first"), "$before\n0", "right at once after kill $round");
	is( $node->safe_psql('postgres', q{
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*) FROM r WHERE c BETWEEN 1 AND 1000}),
		'1000', 'also through an index');
	$node->safe_psql('postgres', q{
UPDATE r SET t = lower(t) WHERE k = 101;
DELETE FROM r WHERE k = 107; INSERT INTO r VALUES (107, 107, repeat('r', 50));});
	is($node->safe_psql('postgres', $sum), $before, 'rows can be written meanwhile');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM r WHERE k >= 300001'), '0', 'no row of the aborted insert');
}
set_conf($node, 'zheap.rollback_paused' => 'off');
undo_quiet($node, 'in the background');
is($node->safe_psql('postgres', "$sum; SELECT v FROM first"), "$before\n0", 'the same when all is undone');
check_tables($node, 'after the rollback');

# --- killed while the transaction runs
finish_session($s);
$s = session($node);
is(ask($s, $large), '', 'a large transaction again');
my $grown = $node->safe_psql('postgres', $blocks);
$node->safe_psql('postgres', 'CHECKPOINT');
send_sql($s, 'UPDATE r SET c = c + 1');
select(undef, undef, undef, 0.3);
kill_server($node);
finish_session($s);
$begin = time;
ok(start_after_kill($node), 'start after a kill in the transaction');
is($node->safe_psql('postgres', $sum), $before, 'right at once');
my $opened = time - $begin;
undo_quiet($node, 'after the crash of a transaction');
note(sprintf 'open and read after %.1f s, undone after %.1f s', $opened, time - $begin);
is($node->safe_psql('postgres', $sum), $before, 'right when undone');
check_tables($node, 'after the crash of a transaction');

# --- the same transaction again, in the room that the undone one had
$node->safe_psql('postgres', "$large ROLLBACK");
undo_quiet($node, 'after an uninterrupted rollback');
is($node->safe_psql('postgres', $sum), $before, 'right again');
$node->safe_psql('postgres', 'VACUUM r');
check_tables($node, 'after vacuum');
cmp_ok($node->safe_psql('postgres', $blocks), '<=', $grown * 1.3, 'the table did not grow on');
$node->stop;
log_is_clean($node);
done_testing();
