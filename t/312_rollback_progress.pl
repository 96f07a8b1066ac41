# pg_stat_progress_zheap_rollback: a long rollback is watched to its end, its
# progress never falls and ends at the total; a server killed in its middle
# shows what is left right after the start; one that fails says why, and goes
# on when the reason is gone.  A lock on one of the tables that the transaction
# changed holds the worker on its way, however fast it is.  ROWS rows (200000).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use ZheapTest;

my $rows = $ENV{ROWS} // 200000;
my $node = PostgreSQL::Test::Cluster->new('progress');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 20ms
autovacuum = off
max_wal_size = 4GB
shared_buffers = 128MB
zheap.rollback_paused = on
});
$node->start;
$node->safe_psql('postgres', qq{
CREATE EXTENSION zheap_am;
CREATE TABLE first (v int) USING zheap;
INSERT INTO first VALUES (0);
CREATE TABLE big (k int, v int, t text) USING zheap;
INSERT INTO big SELECT g, 0, repeat('b', 60) FROM generate_series(1, $rows) g});

my $locker = session($node);

# An aborted transaction whose rollback does not end before let_end().
sub abort_all
{
	$node->safe_psql('postgres', q{BEGIN; UPDATE first SET v = v + 1; UPDATE big SET v = v + 1, t = upper(t); ROLLBACK});
	return ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 AND bool_and(undo_bytes_total > 1000000 AND phase = 'paused') FROM pg_stat_progress_zheap_rollback}), 'a rollback is pending');
}

sub lock_first { return ask($locker, 'BEGIN; LOCK TABLE first IN ACCESS EXCLUSIVE MODE') }
sub let_end { return ask($locker, 'COMMIT') }

# Ask until it is over; every answer must be at least the one before.
sub watch
{
	my ($what, $stop_there) = @_;
	my ($xid, $total, $last, $seen, $bad, $between) = ('', 0, 0, 0, '', 0);
	for (1 .. 6000)
	{
		my $line = $node->safe_psql('postgres', q{SELECT xid, undo_bytes_total, undo_bytes_done, phase FROM pg_stat_progress_zheap_rollback});
		last if $line eq '';
		my ($x, $t, $d, $phase) = split /\|/, $line;
		$bad .= "$line after $last of $total; " if $x eq $xid && ($d < $last || $t < $total || $d > $t);
		($xid, $total, $last) = ($x, $t, $d);
		$seen++;
		if ($d > 0 && $d < $t)
		{
			return $total if $stop_there;
			let_end() if !$between++;
		}
		usleep(20000);
	}
	is($bad, '', "$what: progress does not fall, nor does the total");
	cmp_ok($between, '>=', 1, "$what: seen on its way, in $seen looks");
	return undef;
}

# --- to its end
abort_all();
lock_first();
set_conf($node, 'zheap.rollback_paused' => 'off');
watch('to its end');
is($node->safe_psql('postgres', q{SELECT sum(v), count(*) FILTER (WHERE t = repeat('b', 60)) FROM big}), "0|$rows", 'rows are as before');
undo_quiet($node, 'after the first');

# --- killed in its middle
set_conf($node, 'zheap.rollback_paused' => 'on');
abort_all();
lock_first();
set_conf($node, 'zheap.rollback_paused' => 'off');
my $total = watch('until it is killed', 1);
defined $total or die 'no rollback was seen on its way';
kill_server($node);
finish_session($locker);
ok(start_after_kill($node), 'start after the kill');
ok($node->poll_query_until('postgres', qq{SELECT last_discard_pass IS NOT NULL FROM pg_stat_zheap_undo_totals}), 'a first pass');
my ($rest) = split /\|/, $node->safe_psql('postgres', q{SELECT coalesce(sum(undo_bytes_total), 0) FROM pg_stat_progress_zheap_rollback});
cmp_ok($rest, '<=', $total, 'the total is what is left');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_progress_zheap_rollback'), 'and comes to its end');
is($node->safe_psql('postgres', q{SELECT sum(v), count(*) FILTER (WHERE t = repeat('b', 60)) FROM big}), "0|$rows", 'rows are as before');
undo_quiet($node, 'after the second');

# --- stuck: a page of the table is damaged
$node->safe_psql('postgres', q{CREATE TABLE small (k int, v int) USING zheap; INSERT INTO small SELECT g, 0 FROM generate_series(1, 100) g});
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE small SET v = 1; ROLLBACK});
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('small')});
$node->stop;
my $good = content($file);
overwrite($file, 0, substr($good, 0, 12) . "\xff\xff\x01\x00" . substr($good, 16));
$node->start;
set_conf($node, 'zheap.rollback_paused' => 'off');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 AND bool_and(phase = 'waiting to retry' AND failed_attempts >= 2 AND last_error ~ 'invalid page|small|corrupt' AND last_error_time >= started AND relid::regclass = 'small'::regclass) FROM pg_stat_progress_zheap_rollback}), 'a stuck rollback says why')
  or diag($node->safe_psql('postgres', 'TABLE pg_stat_progress_zheap_rollback'));
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->stop;
overwrite($file, 0, $good);
$node->start;
set_conf($node, 'zheap.rollback_paused' => 'off');
undo_quiet($node, 'after the repair');
is($node->safe_psql('postgres', 'SELECT sum(v) FROM small'), '0', 'and is done when the page is whole again');
$node->stop;
done_testing();
