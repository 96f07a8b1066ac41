# Undo that can't be gathered, or is no more: a scan whose session has used up
# temp_file_limit, or meets a full disk, reads as if it had not been tried, alone
# and with others; files that are open when what was gathered can't be read don't
# stay open; a process that joins the others as the last of them leaves.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('room', conf => q{
autovacuum = off
fsync = off
max_parallel_workers_per_gather = 0
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
zheap.debug_set = 'gather=5,gather-piece=1'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{CREATE EXTENSION zheap_am;
CREATE TABLE z (id int, v int) USING zheap; INSERT INTO z SELECT g, 0 FROM generate_series(1, 20000) g;
CREATE TABLE few (id int, v int) USING zheap; INSERT INTO few SELECT g, 0 FROM generate_series(1, 2000) g;
ALTER TABLE z SET (parallel_workers = 2); ALTER TABLE few SET (parallel_workers = 2)});

my $look = 'SELECT count(*), sum(v) FROM';
my $parallel = 'SET max_parallel_workers_per_gather = 2';

# a session whose snapshot is from before all changes that are to come
sub old_snapshot
{
	my $s = session($node);
	ask($s, "SET log_min_messages = debug1; $_[0]; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
	return $s;
}

# all rows have that then, and had that before
my $v = 0;
my %old;
sub change
{
	%old = (z => '20000|' . 20000 * $v, few => '2000|' . 2000 * $v);
	$node->safe_psql('postgres', "UPDATE $_ SET v = v + 1") foreach qw(z few);
	$v++;
}

# the answer of a statement is that; how often the log has each message meanwhile
my %message = (gathered => qr/gathered undo of/, room => qr/no room to gather undo/,
	gone => qr/gathered undo goes as this process comes/);
sub logged
{
	my ($answer, $what, $do) = @_;
	my $from = -s $node->logfile;
	is($do->(), $answer, $what);
	my $log = slurp_file($node->logfile, $from);
	return map { my $m = $message{$_}; $_ => scalar(() = $log =~ /$m/g) } keys %message;
}

# a cursor of the session that has so many kB in a temporary file, 18 bytes a row
sub fill
{
	my ($s, $kb) = @_;
	my $n = int($kb * 1024 / 18);
	ask($s, "SET work_mem = '64kB'; DECLARE filler SCROLL CURSOR FOR SELECT g FROM generate_series(1, $n) g; MOVE ALL FROM filler; RESET work_mem");
}

# --- temp_file_limit: the session's own files leave no room, or little
foreach my $how ('SELECT 0', $parallel)
{
	foreach my $kb (1020, 850)
	{
		my $s = old_snapshot("SET temp_file_limit = '1MB'; $how");
		change();
		fill($s, $kb);
		my %n = logged($old{z}, "$how, $kb kB used", sub { ask($s, "$look z") });
		# of a parallel scan's processes only the leader has such files
		cmp_ok($n{room}, '>', 0, '... no room') if $how !~ /parallel/;
		ask($s, 'CLOSE filler');
		%n = logged($old{z}, '... and then', sub { ask($s, "$look z") });
		cmp_ok($n{gathered}, '>', 0, '... there is') if $how !~ /parallel/;
		is(ask($s, 'COMMIT'), '', '... is quiet');
		finish_session($s);
	}
}

# --- a full disk, always and at times; a savepoint, a cursor
foreach my $how ('SELECT 0', $parallel)
{
	foreach my $often (1000, 300)
	{
		my $s = old_snapshot($how);
		change();
		ask($s, "SET zheap.debug_no_room = $often; SAVEPOINT a");
		my %n = logged($old{z}, "$how, no room $often of 1000 times", sub { ask($s, "$look z") });
		cmp_ok($n{room}, '>', 0, '... no room');
		is($n{gathered}, 0, '... at all') if $often == 1000;
		ask($s, 'DECLARE c CURSOR FOR SELECT * FROM z; MOVE 5000 FROM c; ROLLBACK TO a');
		ask($s, 'SET zheap.debug_no_room = 0');
		is(ask($s, "$look z"), $old{z}, '... and then');
		is(ask($s, 'COMMIT'), '', '... is quiet');
		finish_session($s);
	}
}

# --- other errors are raised as ever
my $s = old_snapshot('SELECT 0');
change();
ask($s, 'SAVEPOINT a');
order_point($node, 'gather-block', 'error');
like(ask($s, "$look z"), qr/error at point "gather-block"/, 'another error');
ask($s, 'ROLLBACK TO a');

# --- but all that writing its files, or making its segment, may bring
my $pid = ask($s, 'SELECT pg_backend_pid()');
system("prlimit --pid $pid --fsize=4096:unlimited") == 0 or die;
is(ask($s, "$look z"), $old{z}, 'files may not grow, nor the log');
system("prlimit --pid $pid --fsize=unlimited:unlimited") == 0 or die;
my $ordered = order_point($node, 'gather-segment', 'error');
my %n = logged($old{z}, 'no segment is to be had', sub { ask($s, "$look z") });
ok($n{room} > 0 && !-e $ordered, '... no room');

# --- what was gathered can't be read
foreach my $time (1 .. 3)
{
	order_point($node, 'gather-loads', 'error', $pid);
	like(ask($s, "$look z"), qr/error at point "gather-loads"/, "not read, $time");
	ask($s, 'ROLLBACK TO a');
}
SKIP:
{
	skip 'no /proc', 1 unless -d "/proc/$pid/fd";
	is(scalar(grep { (readlink($_) // '') =~ /pgsql_tmp/ } glob "/proc/$pid/fd/*"), 0, '... no file stays open');
}
is(ask($s, "$look z"), $old{z}, '... and then it is');
is(ask($s, 'COMMIT'), '', '... is quiet');
finish_session($s);

# --- one of two workers comes to gather when the other has ended, and is about to
# delete the files
$s = old_snapshot("$parallel; SET parallel_leader_participation = off");
change();
like(ask($s, "EXPLAIN $look few"), qr/Workers Planned: 2/, 'a parallel plan');
order_point($node, 'gather-joins', 'wait');
order_point($node, 'gather-last-leaves', 'wait');
my %n = logged($old{few}, 'joined as the last one left', sub
{
	send_sql($s, "$look few");
	ok(wait_at_point($node, 'gather-joins'), 'one worker comes to gather');
	ok(wait_at_point($node, 'gather-last-leaves'), 'another one has done so, and leaves');
	leave_point($node, 'gather-joins');
	for (1 .. 1800)
	{
		last if !-e $node->data_dir . '/zheap_points/gather-last-leaves.at'
		  || $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}) < 2;
		select(undef, undef, undef, 0.1);
	}
	leave_point($node, 'gather-last-leaves');
	my $answer = ask($s, "SELECT 'done'");
	return $answer =~ s/\ndone$//r;
});
is($n{gone}, 1, '... does without');
is(ask($s, "$look few"), $old{few}, 'and again');
is(ask($s, 'COMMIT'), '', '... is quiet');
finish_session($s);

ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_ls_dir('base/pgsql_tmp')}), 'no temporary files when sessions are gone');
check_tables($node, 'at the end');
undo_quiet($node, 'at the end');
unlike(slurp_file($node->logfile), qr/WARNING/, 'nothing leaks');
$node->stop;
log_is_clean($node);
done_testing();
