# Large values: processes die in the middle of saving, deleting, spilling and
# rolling back chunks, the server is killed; rows that old snapshots of a
# standby see keep their values through replaced ones, VACUUM, VACUUM FULL, a
# crash of the primary and the promotion.  A heap twin has the same rows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
restart_after_crash = on
autovacuum = off
shared_buffers = 8MB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE FUNCTION val(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT left(string_agg(md5(seed || '.' || g), ''), n) FROM generate_series(1, n / 32 + 1) g $$;
CREATE TABLE z (id int PRIMARY KEY, n int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, n int, t text);
ALTER TABLE z ALTER t SET STORAGE EXTERNAL;
ALTER TABLE h ALTER t SET STORAGE EXTERNAL;
INSERT INTO h SELECT g, 0, val(g, 500 * g) FROM generate_series(1, 40) g;
INSERT INTO z TABLE h;
});
is($node->safe_psql('postgres', q{
SELECT amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam WHERE c.relname = 'z'}),
	'zheap', 'chunks lie in a zheap table');

sub same_as_heap
{
	my ($where, $what) = @_;
	return is($where->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d}), '0', $what);
}

# Each transaction changes both tables, or none.
my $load = '';
for my $i (1 .. 10)
{
	my $change = sub {
		return "UPDATE $_[0] SET t = val(id + $i, length(t)), n = n + 1 WHERE id % 10 = $i % 10;\n"
		  . "UPDATE $_[0] SET t = t || 'more' WHERE id % 13 = $i;\n"
		  . "DELETE FROM $_[0] WHERE id = 20 + $i;\n"
		  . "INSERT INTO $_[0] VALUES (20 + $i, 1, val($i, 700 * $i));\n";
	};
	$load .= "BEGIN;\n" . $change->('z') . "SAVEPOINT s;\n"
	  . "UPDATE z SET t = val(1, 9000) WHERE id < 8;\nDELETE FROM z WHERE id < 5;\n"
	  . "ROLLBACK TO s;\n" . $change->('h') . "COMMIT;\n";
	$load .= "BEGIN;\nUPDATE z SET t = val(2, 9000), n = -9;\n"
	  . "INSERT INTO z SELECT g, 0, val(g, 5000) FROM generate_series(900, 920) g;\nROLLBACK;\n"
	  if $i % 3 == 0;
}
my $script = $node->basedir . '/load.sql';
append_to_file($script, $load);

# --- processes die
if ($node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	for my $point (qw(prepared inserted spill-record-written spill-done page-rolled-back))
	{
		my $old = session($node);
		ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		my $file = order_point($node, $point, 'crash');
		for (1 .. 20)
		{
			last if !-e $file;
			eval { $node->psql('postgres', "\\i $script") };
			select(undef, undef, undef, 0.5);
		}
		ok(!-e $file, "$point was reached") or unlink $file;
		wait_until_up($node) or die "the server did not come back after $point";
		eval { finish_session($old) };
		same_as_heap($node, "$point: zheap has what heap has");
		check_tables($node, "after $point");
	}
}

# --- kill -9 while sessions write
for my $round (1 .. 3)
{
	my @s = map { session($node) } 1 .. 2;
	ask($s[1], 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z');
	send_sql($s[0], "\\i $script") for 1 .. 3;
	select(undef, undef, undef, 0.2 * $round);
	$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
	kill_server($node);
	eval { finish_session($_) } for @s;
	ok(start_after_kill($node), "recovered, round $round");
	same_as_heap($node, "zheap has what heap has, round $round");
	check_tables($node, "after kill $round");
}

# --- readers on a standby
my $standby = zheap_standby($node, slot => 'standby', feedback => 1);
$node->wait_for_catchup($standby);
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback');
my $all = 'SELECT count(*), sum(length(t)), md5(string_agg(t, \',\' ORDER BY id)), md5(string_agg(substr(t, 1990, 20), \',\' ORDER BY id)) FROM z';
my $old = session($standby);
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $all");
$node->safe_psql('postgres', "\\i $script") for 1 .. 3;
$node->wait_for_catchup($standby);
is(ask($old, $all), $before, 'old snapshot of the standby: replaced values');
cmp_ok($node->safe_psql('postgres', q{
SELECT count(*) FROM pg_class c, generate_series(0, pg_relation_size(c.reltoastrelid) / 8192 - 1) b,
	zheap_page_items(c.reltoastrelid, b) WHERE c.relname = 'z' AND state = 'spilled'}), '>', 20, 'which were spilled');
same_as_heap($standby, 'a new one sees the new values');
$node->safe_psql('postgres', "VACUUM z; DELETE FROM z WHERE id % 2 = 0; DELETE FROM h WHERE id % 2 = 0; VACUUM z");
$node->safe_psql('postgres', "\\i $script");
$node->wait_for_catchup($standby);
is(ask($old, $all), $before, 'still, after VACUUM');
kill_server($node);
ok(start_after_kill($node), 'primary recovered');
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback again');
$node->safe_psql('postgres', "\\i $script");
$node->wait_for_catchup($standby);
is(ask($old, $all), $before, 'still, after a crash of the primary');
ask($old, 'COMMIT');

# --- in another file
my $here = session($node);
$before = ask($here, "BEGIN ISOLATION LEVEL REPEATABLE READ; $all");
ask($here, 'COMMIT');
ask($here, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', "\\i $script");
$node->safe_psql('postgres', 'VACUUM FULL z');
$node->safe_psql('postgres', "\\i $script");
is(ask($here, $all), $before, 'an old snapshot reads values that a rewrite has copied');
ask($here, 'COMMIT');
finish_session($here);
same_as_heap($node, 'and a new one the new values');
check_tables($node, 'rewritten');

# --- the standby takes over
$node->safe_psql('postgres', 'BEGIN; UPDATE z SET t = val(5, 20000); ROLLBACK');
$node->wait_for_catchup($standby);
kill_server($node);
$standby->promote;
ok($standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'), 'promoted');
same_as_heap($standby, 'the new primary has all values');
$standby->safe_psql('postgres', "\\i $script");
same_as_heap($standby, 'and changes them');
finish_session($old);
undo_quiet($standby, 'at the end');
check_tables($standby, 'at the end');
$standby->stop;
log_is_clean($standby);
done_testing();
