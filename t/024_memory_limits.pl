# Memory runs out while a session notes what it has changed: the error can be
# caught, and the session goes on with what it has.  What it notes of released
# savepoints is bounded.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

plan skip_all => 'no prlimit program' if system('prlimit --version >/dev/null 2>&1') != 0;

my $node = zheap_node('memory', conf => q{
autovacuum = off
fsync = off
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE p (a int PRIMARY KEY, b int, t text) USING zheap;
INSERT INTO p SELECT g, 0, repeat('x', 40) FROM generate_series(0, 999) g;
});

sub limit_memory
{
	my ($pid, $more) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^VmSize:\s+(\d+)/m;
	return system("prlimit --pid $pid --as=" . ($kb + $more) * 1024 . ':') == 0;
}

# --- every page of a temporary table is remembered, for each savepoint, however many
# there are
my $s = session($node);
ask($s, q{
CREATE TEMP TABLE t (a int PRIMARY KEY, b int, pad text) USING zheap;
ALTER TABLE t ALTER pad SET STORAGE PLAIN;
INSERT INTO t SELECT g, 0, repeat('x', 5000) FROM generate_series(0, 999) g;
BEGIN;
UPDATE t SET b = 1;
SELECT sum(b) FROM t;});
my $pid = ask($s, 'SELECT pg_backend_pid()');
limit_memory($pid, 9000) or plan skip_all => 'memory cannot be limited';
my ($level, $out) = (0, '');
until ($out =~ /out of memory/ || $level == 600)
{
	$level++;
	$out = ask($s, "SAVEPOINT s$level; UPDATE t SET b = b + 1");
}
like($out, qr/out of memory/, 'memory ran out');
limit_memory($pid, 4000);
ask($s, "ROLLBACK TO s$level");
is(ask($s, 'SELECT sum(b) FROM t'), 1000 * $level, 'what failed is undone, the rest is there');
is(ask($s, 'COMMIT; SELECT count(*) FROM t'), '1000', 'the session lives on');
finish_session($s);

# --- notes of a permanent table, while all memory is gone
$s = session($node);
ask($s, 'SELECT count(*) FROM p; UPDATE p SET b = 0 WHERE a = 0');
limit_memory(ask($s, 'SELECT pg_backend_pid()'), 3000);
for my $round (1 .. 5)
{
	$out = ask($s, qq{
BEGIN;
UPDATE p SET b = b + 1;
SAVEPOINT s;
CREATE TEMP TABLE big$round AS SELECT array_agg(repeat('x', 100)) FROM generate_series(1, 1000000) g;
ROLLBACK TO s;
DELETE FROM p WHERE a % 10 = 1;
UPDATE p SET t = t || 'more';
ROLLBACK;});
	like($out, qr/out of memory/, "memory ran out, round $round");
	is(ask($s, 'SELECT count(*), sum(b), sum(length(t)) FROM p'), '1000|0|40000', 'rolled back');
}
finish_session($s);

# --- savepoints that are released: not a few bytes for each
$s = session($node);
my $top = q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopMemoryContext'};
my $loop = q{DO $$ BEGIN FOR i IN 1 .. 30000 LOOP
	BEGIN UPDATE p SET b = b + 1 WHERE a = i % 1000; EXCEPTION WHEN division_by_zero THEN NULL; END;
END LOOP; END $$};
ask($s, "BEGIN; $loop; ROLLBACK");
my $before = ask($s, $top);
is(ask($s, "BEGIN; $loop"), '', 'many savepoints');
cmp_ok(ask($s, $top), '<', $before + 500_000, 'memory is bounded');
is(ask($s, 'ROLLBACK; SELECT sum(b) FROM p'), '0', 'and all of them are rolled back');
finish_session($s);
undo_quiet($node, 'at the end');
check_tables($node, 'memory limits');
log_is_clean($node, qr/could not roll back|could not finish a rollback/);
$node->stop;
done_testing();
