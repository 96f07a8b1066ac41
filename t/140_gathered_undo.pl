# Old snapshots' scans that read all undo in order and keep what they need of it
# in temporary files: undo doesn't fit shared_buffers, and the rows of a page were
# changed by transactions that lie far apart.  Answers beside heap twins: several
# versions, several tables in one transaction, cursors, parallel scans, a standby,
# savepoints, little memory, little room for files, cancelled.  Files are gone
# at the end.  Servers with assertions compare each record with its undo page, and
# after the first part all scans gather at once, for 5 blocks at a time.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('gathered', allows_streaming => 1, conf => q{
autovacuum = off
fsync = off
shared_buffers = 1MB
max_connections = 20
max_parallel_workers_per_gather = 0
wal_level = replica
jit = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');
my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';

# pairs of a zheap table and its twin
my %twin = (z => 'h', y => 'g', u => 'v');
$node->safe_psql('postgres', q{
CREATE PROCEDURE change(pairs text[], lo int, hi int) LANGUAGE plpgsql AS $$
DECLARE
	name text;
BEGIN
	FOR k IN 0 .. 30 LOOP
		FOREACH name IN ARRAY pairs LOOP
			EXECUTE format('UPDATE %I SET v = v + 1, t = repeat(chr(97 + v %% 26), 1 + (id + v) %% 9)
				WHERE id %% 31 = %s AND id BETWEEN %s AND %s', name, k, lo, hi);
			IF k % 7 = 3 THEN
				EXECUTE format('DELETE FROM %I WHERE id %% 997 = %s AND id BETWEEN %s AND %s',
					name, k, lo, hi);
			END IF;
		END LOOP;
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION as_of_now(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || sum(v) || '' '' || sum(hashtext(x::text)::bigint) FROM %I x', name)
		INTO answer;
	RETURN answer;
END $$;
}
	  . join '',
	map { my $z = $_; map { sprintf q{
CREATE %s TABLE %s (id int, v int, t text) USING %s;
INSERT INTO %2$s SELECT g, 0, 'first' FROM generate_series(1, 9000) g;
CREATE INDEX ON %2$s (id);
}, $z eq 'u' ? 'UNLOGGED' : '', @$_ } [ $z, 'zheap' ], [ $twin{$z}, 'heap' ] } sort keys %twin);

sub change
{
	my (@z) = @_;
	my $pairs = join ',', map { ($_, $twin{$_}) } @z;
	$node->safe_psql('postgres', "CALL change('{$pairs}', 1, 9000)");
}

# a session that sees what there is now
sub old_snapshot
{
	my ($on, $level) = @_;
	my $s = session($on // $node);
	ask($s, 'SET log_min_messages = debug1');
	ask($s, 'BEGIN ISOLATION LEVEL ' . ($level // 'REPEATABLE READ') . '; SELECT 1');
	return $s;
}

# what is done, how often undo of a table was gathered meanwhile
sub gathered
{
	my ($table, $what, $on) = @_;
	$on //= $node;
	my $logged = -s $on->logfile;
	$what->();
	return scalar(() = slurp_file($on->logfile, $logged) =~ /gathered undo of "$table"/g);
}

sub same
{
	my ($s, $z, $what) = @_;
	is(ask($s, "SELECT as_of_now('$z')"), ask($s, "SELECT as_of_now('$twin{$z}')"), "$z as its twin: $what");
}

# gathered, and the same
sub same_gathered
{
	my ($s, $z, $what, $on) = @_;
	my $n = gathered($z, sub { same($s, $z, $what) }, $on);
	cmp_ok($n, '>=', 1, '... gathered') if $assertions;
}

# temporary files, and folders of those that processes share; of one process
sub files
{
	my ($pid, $on) = @_;
	return ($on // $node)->safe_psql('postgres',
		"SELECT count(*) FROM pg_ls_dir('base/pgsql_tmp') name WHERE name ~ '^pgsql_tmp$pid\\.'");
}

# heap's rows may stand elsewhere
sub sorted { return join "\n", sort split /\n/, $_[0]; }

sub finish
{
	my ($s, $how, $on) = @_;
	my $pid = ask($s, 'SELECT pg_backend_pid()');
	is(ask($s, $how), '', "$how is quiet");
	is(files($pid, $on), 0, '... and leaves no temporary files');
	finish_session($s);
}

my $at_once = $assertions ? "zheap.debug_set = 'gather=5,gather-piece=2'\n" : '';
my $standby = zheap_standby($node, feedback => 1, conf => $at_once);
$node->wait_for_catchup($standby);

# --- when it pays; several tables, a standby
my $s = old_snapshot();
my $there = old_snapshot($standby);
change('z', 'y', 'u') foreach 1 .. 4;
foreach my $z (qw(z y))
{
	is(gathered($z, sub { same($s, $z, 'when it pays') }), 1, '... gathered');
	is(gathered($z, sub { same($s, $z, 'again') }), 0, '... what was gathered serves');
}
cmp_ok(files(ask($s, 'SELECT pg_backend_pid()')), '>', 0, 'there are files');
$node->wait_for_catchup($standby);
same_gathered($there, $_, 'on the standby', $standby) foreach qw(z y);

# what is written afterwards isn't among it
change('z');
same($s, $_, 'after more changes') foreach qw(z y);
$node->wait_for_catchup($standby);
same($there, 'z', 'on the standby, after more changes');
finish($there, 'COMMIT', $standby);
$standby->stop;
finish($s, 'COMMIT');

# --- at once: several snapshots, several versions
$node->append_conf('postgresql.conf', $at_once);
$node->restart;
my @old;
for my $version (0 .. 3)
{
	push @old, old_snapshot();
	change('z', 'y', 'u') if $version < 3;
}
foreach my $i (0 .. 3)
{
	same_gathered($old[$i], $_, "snapshot $i") foreach sort keys %twin;
}

# --- own changes, a transaction that is prepared
ask($old[1], "INSERT INTO $_ SELECT g, 7, 'mine' FROM generate_series(10001, 10100) g") foreach %twin;
same($old[1], $_, 'with own rows') foreach sort keys %twin;
ask($old[1], "UPDATE $_ SET v = 8 WHERE id > 10050") foreach %twin;
same($old[1], $_, 'with own rows that were changed') foreach sort keys %twin;
finish($old[1], "PREPARE TRANSACTION 'p'");
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'");

# --- cursors: they go on, forwards and backwards, while others change rows
$s = $old[0];
foreach my $t (qw(z h))
{
	ask($s, "DECLARE c_$t SCROLL CURSOR FOR SELECT * FROM $t");
}
my @front = split /\n/, ask($s, 'FETCH 700 FROM c_z');
is(scalar(@front), 700, 'a cursor');
is(ask($s, 'FETCH BACKWARD 300 FROM c_z'), join("\n", reverse @front[ 399 .. 698 ]), '... backwards');
change('z');
my $all = sorted(ask($s, 'FETCH ALL FROM c_h'));
ask($s, "MOVE ABSOLUTE 0 FROM c_z");
is(sorted(ask($s, 'FETCH ALL FROM c_z')), $all, '... all of it');
is(sorted(ask($s, 'FETCH BACKWARD ALL FROM c_z')), $all, '... and back');

# --- savepoints: what was gathered below one that is rolled back to serves on
finish($s, 'COMMIT');
$s = old_snapshot();
change('z', 'y');
ask($s, 'SAVEPOINT a');
same_gathered($s, 'z', 'in a savepoint');
ask($s, 'ROLLBACK TO a');
is(gathered('z', sub { same($s, 'z', 'after it') }), 0, '... what was gathered in it serves');
ask($s, 'SAVEPOINT b');
ask($s, "INSERT INTO $_ VALUES (20000, 0, 'mine')") foreach qw(z h);
same($s, 'z', 'with an own row');
like(ask($s, 'SELECT 1 / 0'), qr/division by zero/, 'an error');
ask($s, 'ROLLBACK TO b');
same($s, 'z', 'after an error');

# --- cancelled in the midst of it
SKIP:
{
	skip 'no points without assertions', 7 unless $assertions;
	my $pid = ask($s, 'SELECT pg_backend_pid()');
	ask($s, 'SAVEPOINT c');
	order_point($node, 'gather-block', 'wait', $pid);
	send_sql($s, "SELECT as_of_now('y')");
	ok(wait_at_point($node, 'gather-block'), 'in the midst of undo');
	# who wants the page it was at doesn't wait
	$node->safe_psql('postgres', 'VACUUM y');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	leave_point($node, 'gather-block');
	like(ask($s, 'SELECT 1'), qr/canceling statement due to user request/, '... and cancelled');
	ask($s, 'ROLLBACK TO c');
	order_point($node, 'gather-block', 'error', $pid);
	like(ask($s, "SELECT as_of_now('y')"),
		qr/error at point "gather-block".*gathering undo for a scan of table "y"/s, 'an error says what was done');
	ask($s, 'ROLLBACK TO c');
	same_gathered($s, 'y', 'after both');
	same($s, 'z', 'after both');
}
finish($s, 'ROLLBACK');

# --- little memory, little room for files, none, and not wanted
$s = $old[2];
foreach my $setting ("work_mem = '64kB'; SET hash_mem_multiplier = 1", "temp_file_limit = '256kB'")
{
	ask($s, "COMMIT; SET $setting; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
	change('z');
	same_gathered($s, 'z', $setting);
	ask($s, 'RESET work_mem; RESET hash_mem_multiplier; RESET temp_file_limit');
}
foreach my $setting ("temp_file_limit = 0", 'zheap.gather_undo = off')
{
	ask($s, 'COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	ask($s, "SET $setting");
	change('z');
	is(gathered('z', sub { same($s, 'z', $setting) }), 0, "... not gathered");
	ask($s, 'RESET zheap.gather_undo; RESET temp_file_limit');
}

# --- parallel scans, scans of chosen blocks, each statement a snapshot
ask($s, 'COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1');
change('z', 'y');
my $sum = 'count(*), sum(v), sum(hashtext(x::text)::bigint)';
ask($s, 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
like(ask($s, "EXPLAIN SELECT $sum FROM y x"), qr/Workers Planned: 2/, 'a parallel plan');
is(ask($s, "SELECT $sum FROM y x"), ask($s, "SELECT $sum FROM g x"), 'parallel scan, SERIALIZABLE');
ask($s, 'COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
change('z', 'y');
my $before = ask($s, "SELECT $sum FROM g x");
# processes gather together: while one is at it the others come, too
order_point($node, 'gather-block', 'wait') if $assertions;
my $n = gathered('y', sub
{
	send_sql($s, "SELECT $sum FROM y x");
	if ($assertions)
	{
		ok(wait_at_point($node, 'gather-block'), 'one process of a parallel scan gathers');
		ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ 'FROM y x'"),
			'... another one waits for it to end');
		leave_point($node, 'gather-block');
	}
	is(ask($s, "SELECT 'done'"), "$before\ndone", '... and the answer is right');
});
is($n, 1, '... gathered together') if $assertions;
like(slurp_file($node->logfile), qr/gathered undo of "y": .* by [23] processes/, '... by several') if $assertions;
# what they have serves the next scan, and a serial one
$n = gathered('y', sub
{
	is(ask($s, "SELECT $sum FROM y x"), $before, '... and again');
	is(ask($s, "SELECT $sum FROM y x WHERE ctid >= '(0,0)'"), $before, '... serial');
	ask($s, 'SET parallel_leader_participation = off');
	is(ask($s, "SELECT $sum FROM y x"), $before, '... without the leader');
	is(ask($s, "SELECT count(*), sum(x.v), sum(o.v) FROM y x JOIN y o USING (id)"),
		ask($s, "SELECT count(*), sum(x.v), sum(o.v) FROM g x JOIN g o USING (id)"), '... joined with itself');
});
is($n, 0, '... nothing is gathered for that') if $assertions;
ask($s, 'RESET parallel_leader_participation');
# rows behind what was gathered
ask($s, "INSERT INTO $_ SELECT g, 7, 'mine' FROM generate_series(10001, 12000) g") foreach qw(y g);
is(ask($s, "SELECT $sum FROM y x"), ask($s, "SELECT $sum FROM g x"), '... with own rows behind');
# rescanned
my $lateral = 'SELECT count(*), sum(n) FROM generate_series(1, 3) i, LATERAL (SELECT count(*) n FROM %s WHERE v > i) x';
ask($s, 'SET enable_material = off; SET enable_memoize = off');
is(ask($s, sprintf $lateral, 'y'), ask($s, sprintf $lateral, 'g'), '... again and again');
ask($s, 'RESET enable_material; RESET enable_memoize');
ask($s, 'SET max_parallel_workers_per_gather = 0; SET enable_seqscan = off; SET enable_indexscan = off');
my $some = 'WHERE id BETWEEN 1000 AND 8500';
like(ask($s, "EXPLAIN SELECT $sum FROM z x $some"), qr/Bitmap Heap Scan/, 'a bitmap scan');
$n = gathered('z', sub {
	is(ask($s, "SELECT $sum FROM z x $some"), ask($s, "SELECT $sum FROM h x $some"), '... the same');
});
cmp_ok($n, '>=', 1, '... gathered') if $assertions;
ask($s, 'RESET enable_seqscan; RESET enable_indexscan');
is(ask($s, "SELECT $sum FROM z x WHERE ctid < '(90,0)'"), ask($s, "SELECT $sum FROM h x"), 'a range of TIDs that has all');
same($s, 'z', 'after those');
finish($s, 'COMMIT');

$s = old_snapshot($node, 'READ COMMITTED');
my %begun;
foreach my $t (qw(z h))
{
	ask($s, "DECLARE c_$t CURSOR FOR SELECT * FROM $t");
	$begun{$t} = ask($s, "FETCH 10 FROM c_$t") . "\n";
}
change('z', 'y');
is(sorted($begun{z} . ask($s, 'FETCH ALL FROM c_z')), sorted($begun{h} . ask($s, 'FETCH ALL FROM c_h')), 'a cursor, READ COMMITTED');
ask($s, 'CLOSE c_z; CLOSE c_h');
is(files(ask($s, 'SELECT pg_backend_pid()')), 0, 'no temporary files when the scan has ended');
same($s, 'z', 'a snapshot of now');
finish($s, 'COMMIT');

# --- the session ends with what was gathered
$s = $old[3];
change('z');
same($s, 'z', 'last');
finish_session($s);
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_ls_dir('base/pgsql_tmp')"), 'no temporary files when sessions are gone');

check_tables($node, 'at the end');
undo_quiet($node, 'at the end');
unlike(slurp_file($node->logfile), qr/WARNING:.*leak/, 'nothing leaks');
log_is_clean($node);
log_is_clean($standby);
done_testing();
