# Nothing grows that needn't: tables under churn, with an old snapshot open and
# without, dead rows that wake autovacuum, heap fetches of index-only scans,
# undo after the last old snapshot, empty pages at the end of a table.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZheapTest;

my $node = zheap_node('bloat', conf => q{
autovacuum = off
autovacuum_naptime = 1s
zheap.discard_naptime = 200ms
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

sub one { return $node->safe_psql('postgres', $_[0]); }
sub pages { return one("SELECT pg_relation_size('$_[0]') / 8192"); }

sub old_snapshot
{
	my $s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	return $s;
}

sub close_snapshot
{
	my ($s) = @_;
	ask($s, 'COMMIT');
	finish_session($s);
}

my $columns = 'id int PRIMARY KEY, k int, v int, t text';

# --- delete half, insert as many again at once; no VACUUM anywhere.  The new
# --- rows need line pointers: 4 bytes each, or 3 of 103 pages.
for my $with ('no snapshot', 'an old snapshot')
{
	for my $how ('DELETE FROM half WHERE id % 2 = 0', 'DELETE FROM half WHERE id <= 5000',
		'BEGIN; SAVEPOINT a; DELETE FROM half WHERE id % 2 = 1; COMMIT')
	{
		one(qq{
DROP TABLE IF EXISTS half;
CREATE TABLE half ($columns) USING zheap;
INSERT INTO half SELECT g, g, 0, repeat('a', 60) FROM generate_series(1, 10000) g});
		my $before = pages('half');
		my $s = $with eq 'no snapshot' ? undef : old_snapshot();
		my $seen = $s && ask($s, 'SELECT count(*), sum(id), sum(length(t)) FROM half');
		one($how);
		one(q{INSERT INTO half SELECT g, g, 0, repeat('b', 60) FROM generate_series(20001, 25000) g});
		cmp_ok(pages('half'), '<=', $before * 1.05, "$how, insert as many: same size, $with");
		# single-row transactions find the space, too
		one(q{DELETE FROM half WHERE id % 10 = 5});
		one("INSERT INTO half VALUES ($_, 0, 0, repeat('c', 60));") for 40001 .. 40003;
		one(join '', map { "INSERT INTO half VALUES ($_, 0, 0, repeat('c', 60));" } 41001 .. 41450);
		cmp_ok(pages('half'), '<=', $before * 1.05, "single rows: same size, $with");
		is(ask($s, 'SELECT count(*), sum(id), sum(length(t)) FROM half'), $seen, 'which sees its rows'), close_snapshot($s)
		  if $s;
	}
}

# --- a queue: insert at one end, delete at the other, an old snapshot open.
# --- What may grow is line pointers: 291 a page, until VACUUM.
one(q{
CREATE TABLE queue (id int PRIMARY KEY, t text) USING zheap;
CREATE TABLE plain (id int, t text) USING zheap;
INSERT INTO queue SELECT g, repeat('q', 80) FROM generate_series(1, 1000) g;
INSERT INTO plain TABLE queue});
my $s = old_snapshot();
my $seen = ask($s, 'SELECT sum(id) FROM queue');
my %before = map { $_ => pages($_) } qw(queue plain);

sub churn
{
	my ($start) = @_;
	my $sql = '';
	for my $i (1 .. 100)
	{
		my ($from, $to) = ($start + $i * 100 - 99, $start + $i * 100);
		$sql .= "INSERT INTO $_ SELECT g, repeat('q', 80) FROM generate_series($from, $to) g;"
		  . "DELETE FROM $_ WHERE id <= $to - 1000;\n"
		  for qw(queue plain);
	}
	one($sql);
}
churn(1000);
is(one('SELECT count(*), min(id) FROM queue'), '1000|10001', 'the queue after 10 times its length');
is(ask($s, 'SELECT sum(id) FROM queue'), $seen, 'the old snapshot sees the first');
for my $t (qw(queue plain))
{
	# rows ever there, by line pointers of a page, and some pages that the
	# churn was working on
	cmp_ok(pages($t), '<=', 11000 / 291 + $before{$t}, "$t holds no more pages than line pointers ask for");
}
close_snapshot($s);
ok($node->poll_query_until('postgres', 'SELECT pg_zheap_undo_size() = 0'), 'undo is drained');
one('VACUUM queue; VACUUM plain');
churn(11000);
my %later = map { $_ => pages($_) } qw(queue plain);
one('VACUUM queue; VACUUM plain');
churn(21000);
cmp_ok(pages($_), '<=', $later{$_} * 1.1, "$_ goes on in the same pages") for qw(queue plain);

# --- rows that grow and shrink
one(qq{
CREATE TABLE breathe ($columns) USING zheap WITH (fillfactor = 50);
INSERT INTO breathe SELECT g, g, 0, repeat('a', 40) FROM generate_series(1, 5000) g});
my $flat = pages('breathe');
$s = old_snapshot();
$seen = ask($s, 'SELECT sum(length(t)), sum(v) FROM breathe');
for my $i (1 .. 6)
{
	one("UPDATE breathe SET v = v + 1, t = repeat('b', 90) WHERE id % 6 = $i % 6");
	one("UPDATE breathe SET v = v + 1, t = repeat('c', 20) WHERE id % 6 = ($i + 3) % 6");
}
is(pages('breathe'), $flat, 'growing and shrinking rows: same size, an old snapshot open');
is(ask($s, 'SELECT sum(length(t)), sum(v) FROM breathe'), $seen, 'which sees the rows as they were');
one("UPDATE breathe SET t = 'x'");
one(q{INSERT INTO breathe SELECT g, g, 0, repeat('n', 40) FROM generate_series(10001, 13000) g});
cmp_ok(pages('breathe'), '<=', $flat * 1.05, 'what shrinking rows gave back at commit is used by inserts');
close_snapshot($s);
one(q{DROP TABLE breathe});

# --- an update of an indexed column moves rows: on their pages, if possible
one(qq{
CREATE TABLE moving ($columns) USING zheap;
CREATE INDEX moving_k ON moving (k);
INSERT INTO moving SELECT g, g, 0, repeat('a', 120) FROM generate_series(1, 4000) g});
$flat = pages('moving');
$s = old_snapshot();
for my $i (1 .. 20)
{
	one("UPDATE moving SET k = k + 10000 WHERE id % 20 = $i % 20");
}
cmp_ok(pages('moving'), '<=', $flat * 1.12, 'every row moved, five percent at a time: about the same size');
close_snapshot($s);

# --- a rolled back INSERT leaves room that is found
one(qq{
CREATE TABLE back ($columns) USING zheap;
INSERT INTO back SELECT g, g, 0, repeat('a', 60) FROM generate_series(1, 1000) g;
BEGIN; INSERT INTO back SELECT g, g, 0, repeat('b', 60) FROM generate_series(1001, 31000) g; ROLLBACK});
$flat = pages('back');
undo_quiet($node, 'after a rollback');
one(q{INSERT INTO back SELECT g, g, 0, repeat('b', 60) FROM generate_series(1001, 30500) g});
cmp_ok(pages('back'), '<=', $flat * 1.05, 'the space of a rolled back INSERT is used again');

# --- VACUUM gives empty pages at the end back; not while somebody reads
one(q{DELETE FROM back WHERE id > 500});
undo_quiet($node, 'before VACUUM');
$s = session($node);
ask($s, 'BEGIN; LOCK back IN ACCESS SHARE MODE');
one('VACUUM back');
cmp_ok(pages('back'), '>=', $flat - 2, 'not truncated beside a reader');
ask($s, 'COMMIT');
one('VACUUM (VERBOSE) back');
cmp_ok(pages('back'), '<', 20, 'truncated');
is(one('SELECT count(*) FROM back'), '500', 'rows that are left');
close_snapshot($s);

# --- index-only scans beside updates of columns that no index has
one(qq{
CREATE TABLE ios ($columns) USING zheap;
INSERT INTO ios SELECT g, g, 0, 'x' FROM generate_series(1, 5000) g});
undo_quiet($node, 'before VACUUM');
one('VACUUM ANALYZE ios');

sub heap_fetches
{
	my $plan = one(q{
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(id) FROM ios WHERE id > 0});
	return $plan =~ /Index Only Scan.*Heap Fetches: (\d+)/s ? $1 : $plan;
}
is(heap_fetches(), '0', 'no heap fetches after VACUUM');
$s = old_snapshot();
one('UPDATE ios SET v = v + 1');
is(heap_fetches(), '0', '... after an update of every row');
one("UPDATE ios SET t = repeat('y', 3) WHERE id % 7 = 0; BEGIN; UPDATE ios SET v = -1; SAVEPOINT a; UPDATE ios SET v = -2; ROLLBACK");
is(heap_fetches(), '0', '... after a rollback');
my $w = session($node);
ask($w, 'BEGIN; UPDATE ios SET v = v + 10');
is(heap_fetches(), '0', '... beside a running update');
is(one('SET enable_seqscan = off; SELECT sum(id) FROM ios WHERE id > 0'), 5000 * 5001 / 2, 'and they answer right');
ask($w, 'ROLLBACK');
one('VACUUM ios');
is(heap_fetches(), '0', '... after a VACUUM with an old snapshot open');
one('DELETE FROM ios WHERE id = 78');
cmp_ok(heap_fetches(), '>', 0, 'a page with a deleted row is looked at');
is(one('SET enable_seqscan = off; SELECT count(*) FROM ios WHERE id > 0'), '4999', 'the row is gone');
finish_session($w);
close_snapshot($s);

# --- updates in place make no dead rows, so nobody wakes
one(qq{
CREATE TABLE stat ($columns) USING zheap;
INSERT INTO stat SELECT g, g, 0, 'x' FROM generate_series(1, 2000) g});
# sessions of their own: what a session counts arrives when it ends
one('VACUUM ANALYZE stat');
one(q{SELECT pg_stat_reset_single_table_counters('stat'::regclass)});
one('UPDATE stat SET v = v + 1') for 1 .. 3;
one('BEGIN; UPDATE stat SET v = v + 1; ROLLBACK');
one('BEGIN; SAVEPOINT a; UPDATE stat SET v = v + 1; ROLLBACK TO a; UPDATE stat SET v = v + 1; COMMIT');
is( one(q{SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'stat'}),
	'12000|12000|0', 'updates in place: all "hot", no dead rows');
one(q{ALTER TABLE stat SET (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0)});
set_conf($node, autovacuum => 'on');
one('UPDATE stat SET v = v + 1') for 1 .. 3;
# a table that must be vacuumed shows that autovacuum came by
one(q{
CREATE TABLE wake (id int) USING zheap WITH (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);
INSERT INTO wake SELECT generate_series(1, 1000); DELETE FROM wake});
ok($node->poll_query_until('postgres',
	q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'wake'}), 'autovacuum came by');
is(one(q{SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'stat'}),
	'0', 'and left the updated table alone');
set_conf($node, autovacuum => 'off');

# --- undo falls to its floor once the last old snapshot is gone
$s = old_snapshot();
one('UPDATE half SET v = v + 1') for 1 .. 20;
cmp_ok(one('SELECT pg_zheap_undo_size()'), '>', 2 * 1024 * 1024, 'undo grew');
close_snapshot($s);
undo_quiet($node, 'the last old snapshot is gone');
ok($node->poll_query_until('postgres', 'SELECT pg_zheap_undo_file_size() <= 8 * 1024 * 1024'),
	'its files are small again');

# --- a hot row: how many undo pages does a snapshot look at that must not see
# --- 20,000 updates of it?  Without jumps all of them.
one(q{
CREATE TABLE hot (id int PRIMARY KEY, n int, t text) USING zheap;
INSERT INTO hot VALUES (1, 0, 'jumps'), (2, 0, 'steps')});
my @ages = ([ 0, old_snapshot() ]);
sub update_hot
{
	my ($id, $n, $interval) = @_;
	one(qq{
SET zheap.jump_interval = $interval;
DO \$\$ BEGIN FOR i IN 1..$n LOOP UPDATE hot SET n = n + 1 WHERE id = $id; COMMIT; END LOOP; END \$\$});
}
update_hot(2, 20000, 0);
for my $n (10000, 9000, 900, 100)
{
	update_hot(1, $n, 16);
	push @ages, [ $ages[-1][0] + $n, old_snapshot() ];
}
for my $age (@ages)
{
	my ($n, $session) = @$age;
	my %hits;
	ask($session, 'SET enable_seqscan = off');
	is(ask($session, 'SELECT n FROM hot WHERE id = 1'), $n, "the snapshot of update $n sees it");
	for my $id (1, 2)
	{
		my $plan = ask($session,
			"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT n FROM hot WHERE id = $id");
		$plan =~ /Index Scan.*?\n\s+Index Cond.*?\n\s+Buffers: shared hit=(\d+)/s or die $plan;
		$hits{$id} = $1;
	}
	cmp_ok($hits{1}, '<=', 20, "$hits{1} pages for it");
	cmp_ok($hits{2}, '>', 2 * $hits{1}, "$hits{2} without jumps") if $n == 0;
	close_snapshot($session);
}
one('DELETE FROM hot WHERE id = 2');

# --- a writer of many rows by turns doesn't look for jumps that nobody needs:
# --- each row has a dozen versions, thousands of transactions apart
$s = old_snapshot();
one(q{
CREATE TABLE by_turns (id int PRIMARY KEY, n int) USING zheap;
INSERT INTO by_turns SELECT g, 0 FROM generate_series(1, 3000) g;
DO $$ BEGIN FOR turn IN 1..12 LOOP FOR which IN 1..3000 LOOP UPDATE by_turns SET n = n + 1 WHERE id = which; COMMIT; END LOOP; END LOOP; END $$});
is(one(q{
SELECT count(*) FILTER (WHERE 'jump' = ANY (flags)), count(*) >= 36000
FROM generate_series(0, pg_relation_size('by_turns') / 8192 - 1) b,
	 zheap_page_slots('by_turns', b) s, zheap_undo_records('by_turns', b, s.id)}),
	'0|t', 'rows that are updated by turns have no jumps');
close_snapshot($s);

# --- the dead end of a queue: a new snapshot passes rows that an old one needs
# --- with hardly a look into undo, whoever has the xact slots of their page now
one(q{
CREATE TABLE fifo (id int PRIMARY KEY, t text) USING zheap;
INSERT INTO fifo SELECT g, repeat('x', 100) FROM generate_series(1, 3000) g;
VACUUM ANALYZE fifo});
$s = old_snapshot();
ask($s, 'SELECT count(*) FROM fifo');
one(q{
DO $$ BEGIN FOR i IN 1..2999 LOOP DELETE FROM fifo WHERE id = i; COMMIT; END LOOP; END $$});
my $pages = pages('fifo') + pages('fifo_pkey');
for my $what ('min(id)', 'min(id || t)')
{
	my $plan = one("SET enable_seqscan = off; SET enable_bitmapscan = off; "
		  . "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT $what FROM fifo WHERE id > 0");
	$plan =~ /^Aggregate.*?Buffers: shared hit=(\d+)|^Result.*?Buffers: shared hit=(\d+)/s or die $plan;
	# whether an entry is dead to all is asked for one of 64
	cmp_ok($1 // $2, '<=', $pages + 3000 / 64 + 10, "$what: little more than the $pages pages");
}
is(ask($s, 'SELECT count(*), min(id) FROM fifo'), '3000|1', 'the old snapshot sees them all');
close_snapshot($s);

check_tables($node, 'at the end');
log_is_clean($node);
$node->stop;
done_testing();
