# No room for undo: the transaction that wants it gets an error and rolls
# back without any, others go on, and when there is room again all do.  The
# shortage is a limit on the size of files.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

plan skip_all => 'no prlimit program' if system('prlimit --version >/dev/null 2>&1') != 0;

my $node = zheap_node('full', conf => q{
autovacuum = off
zheap.undo_log_rest_size = 4MB
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, g, repeat('x', 60) FROM generate_series(1, 50000) g;
CREATE TABLE l (n int) USING zheap;
});
my $digest = 'SELECT count(*), sum(c), sum(length(t)) FROM x';
my $before = $node->safe_psql('postgres', $digest);

# WAL segments of 16 MB must still fit
my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
sub limit
{
	my ($size) = @_;
	system("prlimit --pid $pid --fsize=$size:unlimited") == 0 or plan skip_all => 'file size cannot be limited';
}
limit(20 * 1024 * 1024);

for my $round (1 .. 2)
{
	my $s = session($node);
	my $out = ask($s, q{BEGIN; INSERT INTO l VALUES (1); SAVEPOINT a;
DO $$ BEGIN FOR i IN 1 .. 100 LOOP UPDATE x SET t = repeat(chr(65 + i % 26), 60), c = c + 1; END LOOP; END $$;});
	like($out, qr/ERROR:.*(could not extend|could not write|No space|File too large)/, "round $round: no room for undo");
	note($out);
	is(ask($s, 'SELECT 1'), ask($s, 'SELECT 1'), 'session lives');
	like(ask($s, 'SELECT 1'), qr/current transaction is aborted/, 'in an aborted transaction');
	is(ask($s, 'ROLLBACK TO a; SELECT count(*) FROM l'), $round, 'savepoint can be returned to');
	is(ask($s, $digest), $before, 'all rows are as before');
	is(ask($s, 'COMMIT'), '', 'and the rest commits');
	is($node->safe_psql('postgres', $digest), $before, 'for others too');
	is($node->safe_psql('postgres', 'INSERT INTO l SELECT 1 WHERE false; BEGIN; UPDATE l SET n = 2; ROLLBACK; SELECT sum(n) FROM l'),
		$round, 'others write on');
	finish_session($s);
	undo_quiet($node, "round $round");
	check_tables($node, "round $round");
}

# a whole transaction, and a crash right behind it
my ($ret, $stdout, $stderr) = $node->psql('postgres', q{
DO $$ BEGIN FOR i IN 1 .. 100 LOOP UPDATE x SET t = repeat(chr(65 + i % 26), 60), c = c + 1; END LOOP; END $$;});
like($stderr, qr/ERROR/, 'again no room');
kill_server($node);
ok(start_after_kill($node), 'start after a kill');
is($node->safe_psql('postgres', $digest), $before, 'all rows are as before');
undo_quiet($node, 'after the kill');

# without limit the same goes through
$node->safe_psql('postgres', q{
DO $$ BEGIN FOR i IN 1 .. 8 LOOP UPDATE x SET t = repeat(chr(65 + i % 26), 60), c = c + 1; END LOOP; END $$;});
is($node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), join('|', 50000, (split /\|/, $before)[1] + 8 * 50000), 'there is room again');
undo_quiet($node, 'at the end');
check_tables($node, 'at the end');

# Recovery writes undo again that was discarded and truncated since the checkpoint,
# so it needs room that the server had before: without, it doesn't start, and with
# it nothing is lost (docs/operations.md).
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', q{
DO $$ BEGIN FOR i IN 1 .. 16 LOOP UPDATE x SET t = repeat(chr(70 + i % 17), 60), c = c + 1; END LOOP; END $$;});
undo_quiet($node, 'before the last crash');
$before = $node->safe_psql('postgres', $digest);
kill_server($node);
system("prlimit --pid $$ --fsize=20971520:unlimited") == 0 or die;
is($node->start(fail_ok => 1), 0, 'no start while there is no room');
system("prlimit --pid $$ --fsize=unlimited:unlimited") == 0 or die;
like(slurp_file($node->logfile), qr/(?:FATAL|PANIC):.*(?:could not (?:extend|write)|File too large)/, 'the log says why');
unlink $node->data_dir . '/postmaster.pid';
ok(start_after_kill($node), 'start when there is room');
is($node->safe_psql('postgres', $digest), $before, 'nothing is lost');
check_tables($node, 'after the last crash');
$node->stop;
log_is_clean($node, 'could not (?:extend|write)|File too large|startup process');
done_testing();
