# kill -9 at random moments under load, checkpoints in between: every
# acknowledged commit is there, the rest isn't, redo yields the pages that the
# primary had.  Each transaction writes the same into zheap and heap tables.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $seed = $ENV{ZHEAP_SEED} // int(rand(1_000_000));
my $crashes = $ENV{ZHEAP_CRASHES} // 5;
my $clients = 4;
my $keys = 400;
srand($seed);
note("seed $seed");

my $node = zheap_node('crash', conf => q{
wal_consistency_checking = 'zheap'
autovacuum_naptime = 1s
autovacuum_vacuum_scale_factor = 0.05
autovacuum_vacuum_threshold = 50
shared_buffers = 4MB
max_wal_size = 1GB
restart_after_crash = off
});
$node->start;
$node->safe_psql('postgres', qq{
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, v int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, v int, t text);
CREATE INDEX z_v ON z (v);
CREATE TABLE zl (client int, n int, delta int) USING zheap;
CREATE TABLE hl (client int, n int, delta int);
INSERT INTO z SELECT g, 0, g % 50, 'start' FROM generate_series(1, $keys) g;
INSERT INTO h SELECT g, 0, g % 50, 'start' FROM generate_series(1, $keys) g;
});

# The same statement for the zheap table and its heap twin.
sub both
{
	my ($sql) = @_;
	(my $twin = $sql) =~ s/\bz(l?)\b/h$1/g;
	return "$sql;\n$twin;\n";
}

# A transaction; rows that clients share are touched in ascending order, each
# in z before h, so that nobody can deadlock.
sub transaction
{
	my ($client, $n) = @_;
	my $sql = "BEGIN;\n";
	my $own = 10000 + 1000 * $client;	# keys only this client writes
	my $kind = int(rand(12));
	my @k = sort { $a <=> $b } map { 1 + int(rand($keys)) } 1 .. 2;
	my $d = int(rand(100));

	if ($kind <= 4)		# transfer in place
	{
		$sql .= both("UPDATE z SET c = c - $d WHERE k = $k[0]");
		$sql .= both("UPDATE z SET c = c + $d WHERE k = $k[1]");
	}
	elsif ($kind == 5)	# rows grow and shrink
	{
		my $len = int(rand(1200));
		$sql .= both("UPDATE z SET t = repeat('$n ', $len) WHERE k = $k[0]");
	}
	elsif ($kind == 6)	# an indexed column changes; locks
	{
		$sql .= "SELECT 'locked' FROM z WHERE k = $k[0] FOR UPDATE;\n"
		  . both("UPDATE z SET v = v + 1 WHERE k = $k[0]")
		  . "SELECT 'locked' FROM z WHERE k = $k[1] AND k > $k[0] FOR KEY SHARE;\n";
	}
	elsif ($kind == 7)	# rows come by COPY and go
	{
		my $from = $own + int(rand(900));
		$sql .= both("DELETE FROM z WHERE k BETWEEN $from AND $from + 49");
		my $rows = join '', map { "$_\t$n\t" . ($_ % 50) . "\tcopied\n" } $from .. $from + 49;
		$sql .= "COPY z FROM STDIN;\n$rows\\.\nCOPY h FROM STDIN;\n$rows\\.\n";
	}
	elsif ($kind == 8)	# savepoints
	{
		$sql .= "SAVEPOINT a;\n"
		  . both("UPDATE z SET c = c + 1000 WHERE k = $k[0]")
		  . both("INSERT INTO z VALUES (-$n * 10 - $client, 1, 1, 'never')")
		  . "ROLLBACK TO a;\nSAVEPOINT b;\n"
		  . both("UPDATE z SET t = '$n' WHERE k = $k[0]")
		  . "RELEASE b;\n";
	}
	elsif ($kind == 9)	# many rows
	{
		$sql .= both("UPDATE z SET c = c + 1, t = t || 'x' WHERE k BETWEEN $own AND $own + 999");
	}
	elsif ($kind == 10)	# delete and insert one again
	{
		$sql .= both("DELETE FROM z WHERE k = $own + $d")
		  . both("INSERT INTO z VALUES ($own + $d, $n, $d, repeat('i', $d * 5))");
	}
	else				# roll back something large
	{
		return $sql
		  . both("UPDATE z SET c = c + 7, v = v + 1 WHERE k BETWEEN $own AND $own + 999")
		  . both("DELETE FROM z WHERE k BETWEEN $own AND $own + 500")
		  . both("UPDATE z SET c = c + 7 WHERE k = $k[0]")
		  . "ROLLBACK;\n";
	}
	return $sql . both("INSERT INTO zl VALUES ($client, $n, $d)") . "COMMIT;\n\\echo $n\n";
}

my @next = map { 1 } 1 .. $clients;
my @acked = map { {} } 1 .. $clients;

for my $crash (1 .. $crashes)
{
	my @running;
	set_conf($node, full_page_writes => $crash % 2 ? 'on' : 'off',
		'zheap.rollback_foreground_size' => $crash % 3 ? '256kB' : '0');
	for my $c (0 .. $clients - 1)
	{
		my $script = $node->basedir . "/client$c.sql";
		open(my $fh, '>', $script) or die;
		print $fh transaction($c, $next[$c]++) for 1 .. 1500;
		close $fh;
		my ($out, $err) = ("$script.out", "$script.err");
		push @running, {
			c => $c, out => $out, err => $err,
			h => IPC::Run::start(
				[ $node->installed_command('psql'), '-XAtq', '-v', 'ON_ERROR_STOP=1',
					'-d', $node->connstr('postgres'), '-f', $script ],
				'>', $out, '2>', $err)
		};
	}
	my $end = time + 2 + rand(2);
	while (time < $end)
	{
		select(undef, undef, undef, 0.2 + rand(0.6));
		$node->psql('postgres', 'CHECKPOINT') if rand() < 0.3;
	}
	kill_server($node);
	for my $r (@running)
	{
		eval { $r->{h}->finish };
		my @n = grep { /^\d+$/ } split /\n/, slurp_file($r->{out});
		$acked[ $r->{c} ]{$_} = 1 for @n;
		my @err = grep { !/server closed|terminated abnormally|before or while|^CONTEXT:|unexpected postmaster exit|no connection|connection to server|^\s*$|the database system|^\s|^CONTEXT:  COPY|invalid socket/ }
		  split /\n/, slurp_file($r->{err});
		is(join("\n", @err), '', "client $r->{c} saw no error before crash $crash");
		cmp_ok(scalar(@n), '>', 0, "client $r->{c} committed " . @n . ' times');
	}
	if (!start_after_kill($node))
	{
		fail("start after crash $crash, seed $seed");
		last;
	}

	is( $node->safe_psql('postgres', q{
SELECT 'z', * FROM (TABLE z EXCEPT ALL TABLE h) a
UNION ALL SELECT 'h', * FROM (TABLE h EXCEPT ALL TABLE z) b LIMIT 10}),
		'', "zheap has what heap has after crash $crash");
	is( $node->safe_psql('postgres', q{
SELECT 'z', * FROM (TABLE zl EXCEPT ALL TABLE hl) a
UNION ALL SELECT 'h', * FROM (TABLE hl EXCEPT ALL TABLE zl) b LIMIT 10}),
		'', "and in the ledger");
	my %there = map { $_ => 1 }
	  split /\n/, $node->safe_psql('postgres', 'SELECT client, n FROM zl');
	my @lost = map {
		my $c = $_;
		grep { !$there{$_} } map { "$c|$_" } keys %{ $acked[$c] }
	} 0 .. $clients - 1;
	is("@lost[0 .. ($#lost > 9 ? 9 : $#lost)]", '', 'no acknowledged commit is lost');
	check_tables($node, "after crash $crash");
}
undo_quiet($node, 'after all crashes');
check_tables($node, 'at the end');
$node->safe_psql('postgres', 'VACUUM');
check_tables($node, 'after vacuum');
is( $node->safe_psql('postgres', q{
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*) FROM z JOIN h USING (k) WHERE z.v >= -1 AND (z.c, z.v, z.t) IS DISTINCT FROM (h.c, h.v, h.t)}),
	'0', 'the same through the index');
$node->stop;
log_is_clean($node);
note("seed was $seed");
done_testing();
