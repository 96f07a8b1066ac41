# No room for a table, for a temporary table or its undo: the statement fails
# with 53100, the rollback needs no new space, the session and the server live,
# and work goes on when there is space.  (Undo of other tables: t/009_disk_full.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

plan skip_all => 'no prlimit program' if system('prlimit --version >/dev/null 2>&1') != 0;

my $node = zheap_node('noroom', conf => q{
autovacuum = off
max_wal_size = 4GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, 0, repeat('x', 60) FROM generate_series(1, 1000) g;
CREATE UNLOGGED TABLE u (a int, t text) USING zheap;
});
my $digest = 'SELECT count(*), sum(c), sum(length(t)) FROM x';
my $before = $node->safe_psql('postgres', $digest);

# WAL segments of 16 MB must still fit; the last page of a file only in half,
# as on a full disk
my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
system("prlimit --pid $pid --fsize=18878464:unlimited") == 0 or plan skip_all => 'file size cannot be limited';

my $s = session($node);
ask($s, '\set VERBOSITY verbose');
my %fill = (
	'a table' => q{INSERT INTO x SELECT g, 1, repeat('y', 200) FROM generate_series(2000, 120000) g},
	'an unlogged table' => q{INSERT INTO u SELECT g, repeat('y', 200) FROM generate_series(1, 120000) g},
	'a temporary table' => q{CREATE TEMP TABLE tt (a int, t text) USING zheap; INSERT INTO tt SELECT g, repeat('y', 200) FROM generate_series(1, 120000) g},
	'undo of a temporary table' => q{CREATE TEMP TABLE tu (a int, t text) USING zheap; INSERT INTO tu SELECT g, repeat('y', 200) FROM generate_series(1, 10000) g;
DO $$ BEGIN FOR i IN 1 .. 12 LOOP UPDATE tu SET t = repeat(chr(65 + i), 200); END LOOP; END $$},
);
for my $what (sort keys %fill)
{
	my $out = ask($s, "BEGIN; UPDATE x SET c = c + 1 WHERE k <= 100; $fill{$what}");
	like($out, qr/ERROR:  (?:53100|XX000): could not (?:extend|write)/, "no room for $what") or note($out);
	ask($s, 'ROLLBACK');
	is(ask($s, $digest), $before, 'all is undone, the session goes on');
	is(ask($s, 'UPDATE x SET c = c WHERE k = 1; SELECT count(*) FROM u'), '0', 'and writes');
}
is($node->safe_psql('postgres', $digest), $before, 'others see the same');
undo_quiet($node, 'while there is no room');
check_tables($node, 'while there is no room');
finish_session($s);

system("prlimit --pid $pid --fsize=unlimited:unlimited") == 0 or die;
$node->safe_psql('postgres', "BEGIN; $fill{'a table'}; $fill{'an unlogged table'}; COMMIT");
is($node->safe_psql('postgres', 'SELECT count(*) FROM x; SELECT count(*) FROM u'), "119001\n120000", 'there is room again');

# no room for the free space map when a transaction ends: that is but a hint
SKIP:
{
	skip 'the server has no assertions', 6 if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	my %end = ('COMMIT' => '1000', q{PREPARE TRANSACTION 'p'} => '1001');
	for my $end (sort keys %end)
	{
		my $done = order_point($node, 'map-grows', 'error');
		my $err = ($node->psql('postgres', qq{
BEGIN; CREATE TABLE f (a int, t text) USING zheap;
COPY f FROM PROGRAM 'seq 1 2000 | sed "s/\$/	some text/"'; COMMIT;
BEGIN; DELETE FROM f WHERE a > $end{$end}; $end;}))[2];
		is($err, '', "$end without room for a hint");
		$node->psql('postgres', q{COMMIT PREPARED 'p'});
		ok(!-e $done && $node->safe_psql('postgres', 'SELECT max(a) FROM f; DROP TABLE f') eq $end{$end},
			'the map was to grow, and the rows are deleted');
	}
	# nor for a worker that has rolled a page back
	$node->safe_psql('postgres', q{CREATE TABLE f (a int, t text) USING zheap WITH (fillfactor = 60, autovacuum_enabled = off);
INSERT INTO f SELECT g, repeat('x', 100) FROM generate_series(1, 5000) g; VACUUM FULL f});
	my $done = order_point($node, 'map-grows', 'error');
	$node->safe_psql('postgres', q{SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE f SET t = repeat('y', 100); ROLLBACK});
	undo_quiet($node, 'without room for a hint');
	ok(!-e $done, 'of a worker');
}
kill_server($node);
ok(start_after_kill($node), 'start after a kill');
is($node->safe_psql('postgres', 'SELECT count(*), sum(c) FROM x'), '119001|118001', 'all rows are there');
undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
