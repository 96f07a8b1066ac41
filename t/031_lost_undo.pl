# Files of the undo store that are lost, or empty: what they held isn't taken for
# undo that nobody needs.  Rows that were taken back don't come back as committed
# ones, whatever else is written, and over another restart.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = PostgreSQL::Test::Cluster->new('lost');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
zheap.rollback_foreground_size = 0
zheap.rollback_paused = on
max_prepared_transactions = 5
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (a int PRIMARY KEY, n int) USING zheap;
INSERT INTO z SELECT g, 0 FROM generate_series(1, 3000) g;
CREATE UNLOGGED TABLE u (a int PRIMARY KEY, n int) USING zheap;
INSERT INTO u SELECT g, 0 FROM generate_series(1, 3000) g;
CREATE TABLE p (a int PRIMARY KEY, n int) USING zheap;
INSERT INTO p SELECT g, 0 FROM generate_series(1, 3000) g;
CREATE TABLE other (a int) USING zheap;
BEGIN; UPDATE p SET n = 1 WHERE a < 2000; PREPARE TRANSACTION 'p';
});
# a session for each: that its undo goes to a log of its own doesn't matter
$node->safe_psql('postgres', "BEGIN; UPDATE $_ SET n = 1 WHERE a < 2000; ROLLBACK") for 'z', 'u';
my $data = $node->data_dir;
my $undo = "$data/base/9";
$node->stop;
system_or_bail('cp', '-a', $data, "$data.whole");
my @permanent = glob "$undo/1??";
my @unlogged = glob "$undo/1?????? $undo/1000???";
cmp_ok(scalar(@permanent), '>', 0, 'permanent undo logs');
cmp_ok(scalar(@unlogged), '>', 0, 'unlogged undo logs');

# rows that are wrong, or what an error says
sub wrong
{
	my ($table) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM $table WHERE n = 1");
	return $ret == 0 ? $out : ($err =~ /ERROR:.*undo/ ? 'error' : $err);
}

my $log = qr/^(0|error)$/;
my $global = qr/^error$/;
for my $case (
	[ 'nothing is lost', sub { }, qr/^0$/ ],
	[ 'permanent logs', sub { unlink @permanent }, $log ],
	[ 'permanent logs, empty', sub { put($_, '') for @permanent }, $log ],
	[ 'control pages', sub { overwrite($_, 0, "\0" x 8192) for @permanent, @unlogged }, $log ],
	[ 'unlogged logs', sub { unlink @unlogged }, $log ],
	[ 'the global page', sub { unlink "$undo/1" }, $global ],
	[ 'the global page, empty', sub { put("$undo/1", '') }, $global ],
	[ 'the global page, zeroes', sub { overwrite("$undo/1", 0, "\0" x 8192) }, $global ],
	# numbers of logs behind the page header and the horizons
	[ 'the global page, numbers', sub { overwrite("$undo/1", 40, pack('LL', 0, 0)) }, $global ],
	[ 'the global page, permanent number', sub { overwrite("$undo/1", 40, pack('L', 0)) }, $global ],
	[ 'the global page, unlogged number', sub { overwrite("$undo/1", 44, pack('L', 0)) }, $global ])
{
	my ($what, $lose, $want) = @$case;
	system_or_bail('rm', '-rf', $data);
	system_or_bail('cp', '-a', "$data.whole", $data);
	$lose->();
	$node->start;
	like(wrong($_), $want, "$what lost: $_") for 'z', 'u', 'p';
	# what is needed by nobody goes now, if ever
	$node->psql('postgres', q{ROLLBACK PREPARED 'p'});
	for (1 .. 3)
	{
		$node->psql('postgres', 'INSERT INTO other VALUES (1); UPDATE other SET a = a + 1');
		$node->psql('postgres', q{SELECT pg_sleep(0.2)});
	}
	like(wrong($_), $want, "$what lost: $_ later") for 'z', 'u', 'p';
	if ($what =~ /logs|control/)
	{
		ok($node->poll_query_until('postgres',
			q{SELECT count(*) > 0 FROM pg_stat_zheap_undo_holders WHERE kind = 'damaged undo log'}),
			"$what lost: shown");
		is($node->safe_psql('postgres', q{SELECT pg_zheap_undo_size() >= 0 AND pg_zheap_undo_file_size() >= 0,
count(*) > 0 FROM pg_stat_zheap_undo}), 't|t', "$what lost: views");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM other'), '3', "$what lost: others write");
	}
	elsif ($want eq $global)
	{
		my (undef, undef, $err) = $node->psql('postgres', 'INSERT INTO other VALUES (1)');
		like($err, qr/global control page of the undo store is (?:lost|damaged)/, "$what lost: said");
	}
	$node->restart;
	like(wrong($_), $want, "$what lost: $_ after a restart") for 'z', 'u', 'p';
	$node->stop;
}
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
done_testing();
