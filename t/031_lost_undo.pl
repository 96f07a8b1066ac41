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

# a head that is ahead of what was discarded: the beginning of the tail page.
# tail, head and head_offset stand behind the page header
sub move_heads
{
	for my $file (@permanent)
	{
		my $tail = substr(content($file), 24, 4);
		overwrite($file, 28, $tail . pack('S', 24)) if $tail ne pack('L', 0xFFFFFFFF);
	}
	return;
}
# H passes what aborted, by what others have written to another log
sub pass_by
{
	$node->start;
	$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
	my $s = session($node);
	ask($s, 'BEGIN; INSERT INTO other VALUES (0)');
	$node->safe_psql('postgres', 'INSERT INTO other VALUES (0)');
	ask($s, 'ROLLBACK');
	finish_session($s);
	ok($node->poll_query_until('postgres',
		"SELECT h::text::bigint > (SELECT max(xmin::text::bigint) FROM other) AND u < h FROM zheap_horizons()"), 'H is behind what aborted, U is not');
	$node->safe_psql('postgres', 'DELETE FROM other');
	$node->stop;
	return;
}

my $log = qr/^(0|error)$/;
my $global = qr/^error$/;
for my $case (
	[ 'nothing is lost', sub { }, qr/^0$/ ],
	[ 'permanent logs', sub { unlink @permanent }, $log ],
	[ 'permanent logs, empty', sub { put($_, '') for @permanent }, $log ],
	[ 'control pages', sub { overwrite($_, 0, "\0" x 8192) for @permanent, @unlogged }, $log ],
	[ 'heads on control pages', \&move_heads, $log ],
	[ 'heads on control pages, below H', sub { pass_by(); move_heads() }, $log ],
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

# a server without checksums that leaves rollbacks to workers
sub fresh_node
{
	my $n = PostgreSQL::Test::Cluster->new($_[0]);

	init_without_checksums($n);
	$n->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
zheap.rollback_foreground_size = 0
autovacuum = off
});
	$n->start;
	return $n;
}

# a write of a control page that was lost: as it was before the log went on, on pages
# that it had already
$node = fresh_node('stale');
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, v text) USING zheap;
INSERT INTO t SELECT g, 'a' FROM generate_series(1, 3000) g;
UPDATE t SET v = 'b';
UPDATE t SET v = 'a' WHERE a <= 1500;
CREATE TABLE other (a int) USING zheap});
undo_quiet($node, 'before the write that is lost');
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = on');
$node->stop;
my $file = $node->data_dir . '/base/9/100';
my $before = substr(content($file), 0, 8192);
my $size = -s $file;
$node->start;
# what aborts is on later pages alone
$node->safe_psql('postgres', q{UPDATE t SET v = 'a' WHERE a BETWEEN 1501 AND 2300});
$node->safe_psql('postgres', q{BEGIN; UPDATE t SET v = 'c' WHERE a <= 600; ROLLBACK});
$node->stop;
my ($from, $to) = map { unpack('L', substr($_, 24, 4)) } $before, content($file);
isnt($to, $from, 'the tail has moved');
is(-s $file, $size, 'the file has not grown');
overwrite($file, 0, $before);
$node->start;
for (1 .. 3)
{
	$node->psql('postgres', 'INSERT INTO other VALUES (1); UPDATE other SET a = a + 1');
	$node->psql('postgres', 'SELECT pg_sleep(0.2)');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE v = 'c'}), '0', 'nothing comes back');
like(slurp_file($node->logfile), qr/control page of permanent undo log 0 is damaged: .*followed by another/, 'said');
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');

# an undo page that says that its latest writer is its first one
$node = fresh_node('latest');
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, v text) USING zheap;
INSERT INTO t SELECT g, 'a' FROM generate_series(1, 10) g;
CREATE TABLE other (a int) USING zheap;
INSERT INTO other VALUES (1)});
undo_quiet($node, 'before the page is damaged');
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = on');
$node->restart;
$node->safe_psql('postgres', q{BEGIN; UPDATE t SET v = 'c'; ROLLBACK});
$node->stop;
$file = $node->data_dir . '/base/9/100';
my $page = content($file);
my $special = 8192 * unpack('L', substr($page, 24, 4)) + 8192 - 40;
my ($first, $latest) = unpack('QQ', substr($page, $special + 16, 16));
cmp_ok($first, '<', $latest, 'a page of several writers');
overwrite($file, $special + 24, pack('Q', $first));
$node->start;
ok($node->poll_query_until('postgres',
	q{SELECT count(*) > 0 FROM pg_stat_zheap_undo_holders WHERE kind = 'damaged undo log'}), 'shown');
for (1 .. 3)
{
	is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE v = 'c'}), '0', 'nothing comes back');
	$node->psql('postgres', 'UPDATE other SET a = a + 1; SELECT pg_sleep(0.2)');
}
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP:|PANIC:|terminated by signal/, 'no crash');
done_testing();
