# Indexed columns changed in place, where processes die and on a standby: a
# crash between row and entry, or between VACUUM's sweep and its stamp; a change
# of a key while VACUUM is between the two; old snapshots on a standby without
# feedback, while entries are deleted and marks cleared; promotion; a damaged first
# page.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $primary = zheap_node('primary', allows_streaming => 1, conf => q{
autovacuum = off
restart_after_crash = on
zheap.update_indexed_in_place = on
wal_consistency_checking = all
});
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (id int PRIMARY KEY, a int, b int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, a int, b int, t text);
CREATE INDEX x_a ON x (a);
CREATE INDEX x_b ON x (b, a);
CREATE INDEX x_t ON x (t);
INSERT INTO x SELECT g, g % 10, g, 't' || g % 7 FROM generate_series(1, 1000) g;
INSERT INTO h TABLE x;
CREATE TABLE tick (n int);
CREATE PROCEDURE twice(what text) LANGUAGE plpgsql AS $$
BEGIN EXECUTE replace(what, '@', 'x'); EXECUTE replace(what, '@', 'h'); END $$;
} . keyed_allow());
$primary->safe_psql('postgres', q{CALL keyed_allow('x')});
$primary->safe_psql('postgres', 'VACUUM x');
my $standby = zheap_standby($primary, conf => q{
hot_standby_feedback = off
max_standby_streaming_delay = -1
max_standby_archive_delay = -1
});
$primary->wait_for_catchup($standby);

# what the table shows by each kind of scan; the first line is the truth
my $ask = q{SET enable_sort = off;
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
SELECT md5(string_agg(x::text, ' ' ORDER BY id)), (SELECT md5(string_agg(x.a::text, ' ' ORDER BY a)) FROM x), count(*) FILTER (WHERE a = 3) FROM x;
SET enable_seqscan = off; SET enable_indexscan = on;
SELECT md5(string_agg(x::text, ' ' ORDER BY id)) FROM x WHERE b IS NOT NULL;
SELECT md5(string_agg(a::text, ' ')) FROM (SELECT a, id FROM x WHERE a > -9 ORDER BY a OFFSET 0) s;
SELECT count(t) FROM x WHERE a = 3;
SET enable_indexonlyscan = on;
SELECT md5(string_agg(a::text, ' ')) FROM (SELECT a FROM x WHERE a > -9 ORDER BY a OFFSET 0) s;
SELECT count(*) FROM x WHERE a = 3;
SET enable_indexscan = off; SET enable_bitmapscan = on;
SELECT md5(string_agg(x::text, ' ' ORDER BY id)) FROM x WHERE a > -9 AND b IS NOT NULL;
SELECT count(*) FROM x WHERE a = 3};

sub scans_agree
{
	my ($answer, $what) = @_;
	my ($rows, $keys, $three) = split /\|/, (split /\n/, $answer)[0];
	return is($answer, join("\n", "$rows|$keys|$three", $rows, $keys, $three, $keys, $three, $rows, $three), $what);
}

sub same_as_heap
{
	my ($node, $what) = @_;
	scans_agree($node->safe_psql('postgres', $ask), "scans agree $what");
	return is($node->safe_psql('postgres', 'SELECT count(*) FROM (TABLE x EXCEPT TABLE h) s'), '0', "rows as heap has them $what");
}

# What VACUUM finds settled, and which marks it clears, depends on the snapshots of
# a moment, those of background processes too: these do it until it is so.
my $rounds = 10 * $PostgreSQL::Test::Utils::timeout_default;
my $marks = q{SELECT count(*) FROM generate_series(0, pg_relation_size('x') / 8192 - 1) b,
	zheap_page_items('x', b) WHERE 'stale' = ANY (flags)};
sub vacuum_all
{
	my $left;
	for (1 .. $rounds)
	{
		$primary->safe_psql('postgres', 'VACUUM x');
		$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
		$left = $primary->safe_psql('postgres', $marks);
		last if $left eq '0';
		select undef, undef, undef, 0.1;
	}
	return is($left, '0', "no mark is left, $_[0]");
}

# a session whose VACUUM waits at a point
sub vacuum_at
{
	my ($point, $what) = @_;
	order_point($primary, $point, 'wait');
	my $at = $primary->data_dir . "/zheap_points/$point.at";
	my $v = session($primary);
	for (1 .. $rounds)
	{
		$v->{out} = '';
		send_sql($v, "VACUUM x;\n\\echo over");
		until (-e $at || $v->{out} =~ /over/)
		{
			$v->{h}->pump_nb;
			select undef, undef, undef, 0.01;
		}
		last if -e $at;
		select undef, undef, undef, 0.1;
	}
	ok(-e $at, $what);
	return $v;
}

my @changes = (
	'UPDATE @ SET a = a + 1 WHERE id % 3 = 0',
	'UPDATE @ SET a = a - 1, b = -b WHERE id % 3 = 0',
	q{UPDATE @ SET t = 't' || (id + 1) % 7, a = 3 WHERE id BETWEEN 100 AND 300},
	'DELETE FROM @ WHERE id % 50 = 1',
	'UPDATE @ SET a = id % 10, b = abs(b)');

# an old snapshot on the standby, from before each change to after its traces are gone
for my $i (0 .. $#changes)
{
	my $s = session($standby);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $before = ask($s, $ask);
	scans_agree($before, "standby, before change $i");
	$primary->safe_psql('postgres', "CALL twice('" . ($changes[$i] =~ s/'/''/gr) . "')");
	is(ask($s, $ask), $before, "old snapshot, change $i");
	vacuum_all("change $i");
	my $lsn = $primary->lsn('insert');
	# replay has come as far as it may
	ok($standby->poll_query_until('postgres', qq{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot')
		OR pg_last_wal_replay_lsn() >= '$lsn'}), "replay waits, or is done, change $i");
	is(ask($s, $ask), $before, "old snapshot after VACUUM, change $i");
	ask($s, 'COMMIT');
	finish_session($s);
	$primary->wait_for_catchup($standby);
	same_as_heap($primary, "on the primary, change $i");
	same_as_heap($standby, "on the standby, change $i");
}
check_tables($primary, 'after changes');

# a scan on the standby began before the table was announced: the first change of
# a key in place isn't replayed while it goes on (Z55)
$primary->safe_psql('postgres', q{
CREATE TABLE y (id int PRIMARY KEY, a int) USING zheap;
CREATE INDEX y_a ON y (a);
INSERT INTO y SELECT g, g FROM generate_series(1, 1000) g});
$primary->wait_for_catchup($standby);
{
	my $s = session($standby);
	ask($s, q{BEGIN; SET enable_seqscan = off; SET enable_bitmapscan = off;
		DECLARE c CURSOR FOR SELECT id FROM y WHERE a > 0 ORDER BY a; MOVE 2 IN c});
	$primary->safe_psql('postgres', q{CALL keyed_allow('y')});
	$primary->safe_psql('postgres', 'UPDATE y SET a = a + 100 WHERE id % 2 = 0');
	ok($standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot')}), 'replay waits for a scan of before');
	is(ask($s, 'FETCH ALL FROM c'), join("\n", 3 .. 1000), 'it shows the rows as they were');
	ask($s, 'COMMIT');
	finish_session($s);
	$primary->wait_for_catchup($standby);
	for my $node ($primary, $standby)
	{
		is($node->safe_psql('postgres', q{SET enable_seqscan = off; SET enable_bitmapscan = off;
			SELECT count(*), count(DISTINCT id), sum(a) FROM (SELECT * FROM y WHERE a > 0 ORDER BY a OFFSET 0) s}),
			'1000|1000|550500', $node->name . ' shows them as they are');
	}
	is($primary->safe_psql('postgres', q{SELECT count(*) > 0 FROM zheap_page_items('y', 0) WHERE 'stale' = ANY (flags)}), 't', 'rows stayed');
}

SKIP: {
	skip 'the server has no assertions', 1
	  if $primary->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';

	# a crash between the change of a row and its entry, and after VACUUM's sweep
	for my $point (qw(entry swept))
	{
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = a + 5 WHERE id < 60')});
		my $file = order_point($primary, $point, 'crash');
		my $rc;
		for (1 .. $rounds)
		{
			($rc) = $primary->psql('postgres', $point eq 'entry' ? 'UPDATE x SET a = 77, b = 77 WHERE id = 70' : 'VACUUM x');
			last if $rc != 0 || $point eq 'entry';
			select undef, undef, undef, 0.1;
		}
		isnt($rc, 0, "a process dies at $point");
		wait_until_up($primary);
		ok(!-e $file, "$point was reached");
		same_as_heap($primary, "after a crash at $point");
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = 77, b = 77 WHERE id = 70')});
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = 70, b = 71 WHERE id = 70')});
		same_as_heap($primary, "changes after a crash at $point");
	}

	# a key leaves K when VACUUM has listed the row: nobody tells standbys of that (Z54)
	{
		vacuum_all('before a sweep');
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = 600 WHERE id = 80')});
		$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
		my $v = vacuum_at('sweep', 'VACUUM has listed rows');
		$primary->wait_for_catchup($standby);
		my $s = session($standby);
		ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tick');
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = 601 WHERE id = 80')});
		$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1)') for 1 .. 2;
		leave_point($primary, 'sweep');
		ask($v, 'SELECT 1');
		finish_session($v);
		my $lsn = $primary->lsn('insert');
		ok($standby->poll_query_until('postgres', qq{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot')
			OR pg_last_wal_replay_lsn() >= '$lsn'}), 'replay waits, or is done, after a sweep');
		is(ask($s, 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(t), min(id) FROM x WHERE a = 600'), '1|80', 'a snapshot on the standby needs the key');
		ask($s, 'COMMIT');
		finish_session($s);
		$primary->wait_for_catchup($standby);
		same_as_heap($_, 'after a sweep, on ' . $_->name) for $primary, $standby;
	}

	# a key is changed when its index was swept: no stamp for this page
	for my $change (q{CALL twice('UPDATE @ SET a = a + 1 WHERE id < 60')},
		'BEGIN; UPDATE x SET a = a + 1 WHERE id < 60; ROLLBACK')
	{
		vacuum_all('before a change beside VACUUM');
		$primary->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = a + 5 WHERE id < 60')});
		my $v = vacuum_at('swept', 'VACUUM has swept an index');
		my $s = session($primary);
		ask($s, $change);
		finish_session($s);
		leave_point($primary, 'swept');
		ask($v, 'SELECT 1');
		finish_session($v);
		$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
		$primary->safe_psql('postgres', 'VACUUM x');
		same_as_heap($primary, 'after a change beside VACUUM');
		check_tables($primary, 'after a change beside VACUUM');
	}
}

$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
same_as_heap($standby, 'after promotion');
$standby->safe_psql('postgres', q{CALL twice('UPDATE @ SET a = a + 1, b = b + 1'); VACUUM x});
same_as_heap($standby, 'changed after promotion');
check_tables($standby, 'after promotion');
log_is_clean($standby);

# the first page, which says what scans have to expect, is damaged: they expect
# the worst, and need it for nothing else
$standby->safe_psql('postgres', qq{
CREATE TABLE $_ (id int PRIMARY KEY, a int, t text) USING zheap;
CREATE INDEX ${_}_a ON $_ (a);
INSERT INTO $_ SELECT g, g, repeat('x', 60) FROM generate_series(1, 1000) g}) for qw(never keyed);
$standby->safe_psql('postgres', q{CALL keyed_allow('keyed')});
$standby->safe_psql('postgres', 'UPDATE keyed SET a = a + 1000 WHERE id > 500');
my %file = map { $_ => $standby->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } qw(never keyed);
$standby->stop;
overwrite($standby->data_dir . "/$file{$_}", 0, "\x55" x 8192) for qw(never keyed);
$standby->start;
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT id, a FROM';
is($standby->safe_psql('postgres', "$by_index never WHERE a BETWEEN 600 AND 601"), "600|600\n601|601", 'by index, beside a damaged first page');
is($standby->safe_psql('postgres', "$by_index keyed WHERE a BETWEEN 600 AND 601 OR a = 1602"), '602|1602', 'keys that changed in place, too');
is($standby->safe_psql('postgres', "$by_index keyed WHERE a BETWEEN 600 AND 601"), '', 'old keys are not found');
for my $table (qw(never keyed))
{
	my ($ret, $out, $err) = $standby->psql('postgres', "SELECT count(t) FROM $table");
	like($err, qr/ERROR:.*(block 0|$file{$table})/, "a scan of all of $table is told");
	# no page tells that keys may change in place
	$standby->safe_psql('postgres', "UPDATE $table SET a = -1 WHERE id = 700");
	is($standby->safe_psql('postgres', "$by_index $table WHERE a = -1"), '700|-1', "a row of $table is changed");
}
$standby->stop;
done_testing();
