# Cascading standby: old snapshots there read old versions; after failover of
# the middle one it follows on; the old primary comes back by pg_rewind.
use strict;
use warnings;
use File::Basename;
use FindBin;
use List::Util qw(max);
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $a = zheap_node('a', allows_streaming => 1, conf => q{
autovacuum = off
wal_log_hints = on
wal_keep_size = 1GB
wal_consistency_checking = 'zheap'
zheap.undo_log_rest_size = 256kB
});
$a->start;
$a->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, 0, repeat('x', 40) FROM generate_series(1, 3000) g;
CREATE TABLE held (k int PRIMARY KEY, t text) USING zheap;
INSERT INTO held SELECT g, repeat('h', 40) FROM generate_series(1, 30000) g;
});
my $b = zheap_standby($a, name => 'b', feedback => 1);
my $c = zheap_standby($b, name => 'c', feedback => 1);

sub catch_up
{
	my ($from) = @_;
	my $lsn = $from->lsn('insert');
	for my $n ($b, $c)
	{
		next if $n == $from;
		$n->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") or die 'no catch-up';
	}
}

sub same
{
	my ($what, @nodes) = @_;
	my $want = tables_digest($nodes[0], ['x']);
	is(tables_digest($_, ['x']), $want, $_->name . ": $what") for @nodes[ 1 .. $#nodes ];
}
my $digest = 'SELECT count(*), sum(c), sum(hashtextextended(x::text, 0)::numeric) FROM x';

# --- an old snapshot two servers away
ok($a->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL'), 'feedback reaches the primary');
catch_up($a);
my $old = session($c);
my $rows = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
$a->safe_psql('postgres', 'UPDATE x SET c = c + 1; UPDATE x SET c = c + 1 WHERE k < 1000; DELETE FROM x WHERE k > 2900; '
	  . "BEGIN; UPDATE x SET t = 'undone'; ROLLBACK; SELECT pg_current_xact_id();") for 1 .. 3;
$a->safe_psql('postgres', 'VACUUM x');
catch_up($a);
is(ask($old, $digest), $rows, 'an old snapshot of the cascading standby reads old versions');
is(ask($old, 'SET enable_seqscan = off; SELECT c, length(t) FROM x WHERE k = 2950'), '0|40', 'also deleted ones, by index');
ask($old, 'COMMIT');
same('standbys show the rows', $a, $b, $c);

# --- failover of the middle one with a transaction in flight and one prepared
undo_quiet($a, 'so that the whole file is used anew');
my $held = tables_digest($a, ['held']);
$a->safe_psql('postgres', q{BEGIN; UPDATE held SET t = repeat('n', 40); PREPARE TRANSACTION 'held'; CHECKPOINT});
my %log = map { (-s) => $_ } glob $a->data_dir . '/base/9/1??';
my $log = $log{max(keys %log)};
# the log goes to rest: nothing else that stays is written there
discard_pass($a);
my $run = session($a);
ask($run, q{BEGIN; UPDATE x SET t = 'in flight' WHERE k <= 1500; DELETE FROM x WHERE k BETWEEN 1600 AND 1700});
$a->safe_psql('postgres', q{BEGIN; UPDATE x SET c = 0 WHERE k = 2000; PREPARE TRANSACTION 'kept'; SELECT pg_current_xact_id()});
catch_up($a);
my $before = tables_digest($a, ['x']);
$b->promote;
# the old primary goes on a while by itself
ask($run, 'COMMIT');
$a->safe_psql('postgres', q{UPDATE x SET t = 'diverged' WHERE k <> 2000; BEGIN; DELETE FROM x WHERE k <> 2000; ROLLBACK; CHECKPOINT});
finish_session($run);
# undo that the new primary still needs is gone and its file begins anew
$a->safe_psql('postgres', q{COMMIT PREPARED 'held'});
$a->poll_query_until('postgres', 'SELECT pg_current_xact_id() IS NOT NULL AND size = 8192 FROM '
	  . "pg_stat_file('base/9/" . basename($log) . "')") or die 'the undo file is not truncated';
my @other;
while (@other < 10 && -s $log == 8192)
{
	push @other, session($a);
	ask($other[-1], 'BEGIN; UPDATE x SET c = c + 1 WHERE k = 1800 + ' . @other);
}
cmp_ok(-s $log, '>', 8192, 'the undo file has grown again');
$a->safe_psql('postgres', 'CHECKPOINT');
finish_session($_) for @other;
kill_server($a);
is(tables_digest($b, ['x']), $before, 'what was in flight is not there after failover');
$b->safe_psql('postgres', q{COMMIT PREPARED 'kept'; UPDATE x SET c = c + 5 WHERE k < 100; DELETE FROM x WHERE k = 50;});
is($b->safe_psql('postgres', 'SELECT c FROM x WHERE k = 2000'), '0', 'the prepared transaction commits there');
catch_up($b);
same('the cascading standby follows the new primary', $b, $c);
is(tables_digest($b, ['held']), $held, 'old versions of what is still prepared');
check_tables($b, 'of the new primary');
$b->safe_psql('postgres', 'CHECKPOINT');

# --- the old primary comes back
start_after_kill($a);	# pg_rewind wants a clean shutdown
$a->stop;
my $conf = $a->data_dir . '/postgresql.conf';
my $keep = slurp_file($conf);
command_ok([ 'pg_rewind', '--no-sync', '--source-server', $b->connstr('postgres'), '-D', $a->data_dir ], 'pg_rewind');
unlink $conf;
append_to_file($conf, $keep);
$a->enable_streaming($b);
$a->start;
my $lsn = $b->lsn('insert');
$a->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
same('the rewound server shows the rows of the new primary', $b, $a);
is(tables_digest($a, ['held']), $held, 'old versions in undo that the target had discarded and written over');
$b->safe_psql('postgres', 'UPDATE x SET c = c + 1; BEGIN; UPDATE x SET c = 0; ROLLBACK; VACUUM x');
$lsn = $b->lsn('insert');
$a->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
same('and goes on', $b, $a);
$b->stop;
$a->promote;
$a->safe_psql('postgres', q{ROLLBACK PREPARED 'held'});
undo_quiet($a, 'of the rewound server');
check_tables($a, 'of the rewound server');
is(tables_digest($a, ['held']), $held, 'which are rolled back to');
finish_session($old);
$a->stop;
$c->stop;
log_is_clean($_) for $a, $b, $c;
done_testing();
