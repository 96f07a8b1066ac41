# Space of ended rows is taken by others while an old snapshot still reads
# them: their bodies go to undo.  The transaction that spills aborts; snapshots of
# different age; prepared and aborted enders; the server dies at each step.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('spill', conf => q{
restart_after_crash = on
wal_consistency_checking = 'zheap'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
});

# line pointers of a table by state
sub pointers
{
	my ($table, $state) = @_;
	return $node->safe_psql('postgres', qq{
SELECT count(*) FROM generate_series(0, pg_relation_size('$table') / 8192 - 1) b,
	zheap_page_items('$table', b) WHERE state = '$state'});
}

sub pages
{
	my ($table) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_size('$table') / 8192");
}

sub fresh_table
{
	my ($index) = @_;
	$node->safe_psql('postgres', qq{
DROP TABLE IF EXISTS z;
CREATE TABLE z (id int, v int, t text) USING zheap;
INSERT INTO z SELECT g, 0, repeat('a', 80) FROM generate_series(1, 3000) g;
} . ($index ? 'ALTER TABLE z ADD PRIMARY KEY (id)' : ''));
}

# what a session sees of the first rows, by all ways of reading
my $digest = 'SELECT count(*), sum(hashtextextended(z::text, 0)::numeric) FROM z';

sub views
{
	my ($s) = @_;
	my %off = (
		seq => [qw(indexscan bitmapscan)],
		index => [qw(seqscan bitmapscan)],
		bitmap => [qw(seqscan indexscan)]);
	my @seen;
	for my $way (sort keys %off)
	{
		ask($s, "SET enable_$_ = off") for @{ $off{$way} };
		push @seen, ask($s, "$digest WHERE id > 0");
		ask($s, "RESET enable_$_") for @{ $off{$way} };
	}
	push @seen, ask($s, "$digest TABLESAMPLE SYSTEM (100)"),
	  ask($s, "$digest WHERE ctid >= '(0,0)'"), ask($s, "SELECT * FROM z WHERE ctid = '(2,2)'");
	return join "\n", @seen;
}

sub snapshot
{
	my $s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	return ($s, views($s));
}

sub insert
{
	my ($from, $n, $c) = @_;
	return "INSERT INTO z SELECT g, 1, repeat('$c', 80) FROM generate_series($from, $from + $n - 1) g;\n";
}

# --- an old snapshot, deletes, inserts: the file doesn't grow
for my $index (1, 0)
{
	my $with = $index ? 'with an index' : 'without index';
	fresh_table($index);
	my $pages = pages('z');
	my ($old, $before) = snapshot();
	$node->safe_psql('postgres', 'DELETE FROM z WHERE id % 2 = 0');
	is(pointers('z', 'spilled'), '0', "$with: a DELETE alone spills nothing");
	$node->safe_psql('postgres', insert(5001, 1400, 'b'));
	cmp_ok(pointers('z', 'spilled'), '>', 1200, "$with: spilled");
	cmp_ok(pages('z'), '<=', $pages + 1, "$with: same size");
	is(views($old), $before, "$with: the snapshot reads spilled rows");
	is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM z'), '2900|1400',
		"$with: others don't");
	check_tables($node, "$with: spilled");

	# a vacuum can't free what the snapshot needs; when it is gone it can
	$node->safe_psql('postgres', 'VACUUM z');
	is(views($old), $before, "$with: still, after VACUUM");
	ask($old, 'COMMIT');
	undo_quiet($node, $with);
	$node->safe_psql('postgres', 'VACUUM z');
	is(pointers('z', 'spilled') + pointers('z', 'dead'), 0, "$with: VACUUM frees the pointers");
	finish_session($old);
}

# --- who spills aborts, as a whole and in part; another goes on
fresh_table(1);
my ($old, $before) = snapshot();
$node->safe_psql('postgres', 'DELETE FROM z WHERE id <= 2000');
my $pages = pages('z');
$node->safe_psql('postgres', 'BEGIN;' . insert(5001, 500, 'b') . 'ROLLBACK');
my $spilled = pointers('z', 'spilled');
cmp_ok($spilled, '>', 300, 'spilled by one who aborted');
is(views($old), $before, 'rows are read through the chain of one who aborted');
$node->safe_psql('postgres', 'BEGIN; SAVEPOINT a;' . insert(6001, 200, 'b')
	  . 'ROLLBACK TO a;' . insert(7001, 200, 'b') . 'SAVEPOINT b;' . insert(8001, 200, 'c') . 'COMMIT');
is(views($old), $before, '... and of savepoints');
check_tables($node, 'spillers that aborted');
is($node->safe_psql('postgres', 'SELECT count(*) FROM z'), '1400', 'rows that are there');

# --- a younger snapshot; chains with writers discarded at different times
my ($young, $before2) = snapshot();
$node->safe_psql('postgres', 'DELETE FROM z WHERE id BETWEEN 2001 AND 2400 OR id > 8100');
$node->safe_psql('postgres', insert(9001, 300, 'd'));
my ($third, $before3) = snapshot();
$node->safe_psql('postgres', 'UPDATE z SET id = -id WHERE id BETWEEN 2401 AND 2700');
$node->safe_psql('postgres', insert(10001, 2500, 'e'));
is(views($old), $before, 'oldest of three snapshots');
is(views($young), $before2, 'second');
is(views($third), $before3, 'third');
ask($old, 'COMMIT');
$node->safe_psql('postgres', 'VACUUM z');
is(views($young), $before2, 'second, the first is gone');
is(views($third), $before3, 'third, the first is gone');
my $middle = pointers('z', 'spilled');
ask($young, 'COMMIT');
$node->safe_psql('postgres', 'VACUUM z');
cmp_ok(pointers('z', 'spilled'), '<', $middle, 'VACUUM frees what only the second saw');
cmp_ok(pointers('z', 'spilled'), '>', 0, 'but not what the third sees');
is(views($third), $before3, 'third, alone');
ask($third, 'COMMIT');
$node->safe_psql('postgres', 'VACUUM z');
is(pointers('z', 'spilled'), '0', 'nothing spilled is left');
check_tables($node, 'after all snapshots');
finish_session($_) for $old, $young, $third;

# --- enders: aborted ones aren't spilled, prepared ones once they committed
fresh_table(1);
($old, $before) = snapshot();
$node->safe_psql('postgres', q{
BEGIN; DELETE FROM z WHERE id % 3 = 0; ROLLBACK;
BEGIN; DELETE FROM z WHERE id % 3 = 1 AND id < 1500; PREPARE TRANSACTION 'p';
BEGIN; SAVEPOINT a; DELETE FROM z WHERE id % 3 = 2; ROLLBACK TO a; DELETE FROM z WHERE id > 2990; COMMIT;
} . insert(5001, 200, 'b'));
is(pointers('z', 'spilled') <= 10 ? 'ok' : pointers('z', 'spilled'), 'ok',
	'rows whose end did not commit stay where they are');
is(views($old), $before, 'snapshot beside a prepared delete');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
$node->safe_psql('postgres', 'VACUUM z;' . insert(6001, 300, 'b'));
cmp_ok(pointers('z', 'spilled'), '>', 100, 'spilled once the prepared transaction committed');
is(views($old), $before, 'snapshot beside a committed delete');
is($node->safe_psql('postgres', 'SELECT count(*) FROM z'), 2990 - 500 + 500, 'rows that are there');

# --- an index that is built now serves the old snapshot or isn't used for it
$node->safe_psql('postgres', q{CREATE INDEX z_v ON z (v, id); CREATE UNIQUE INDEX z_u ON z (id, t); ANALYZE z});
is(views($old), $before, 'snapshot older than an index');
is( ask($old, "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM z WHERE v = 0"),
	'3000', 'through the index or not');
check_tables($node, 'indexes over spilled rows');
ask($old, 'COMMIT');
finish_session($old);

# --- unlogged tables; wal_level and crash don't matter to them
$node->safe_psql('postgres', 'ALTER TABLE z RENAME TO logged; CREATE UNLOGGED TABLE z (id int PRIMARY KEY, v int, t text) USING zheap;' . insert(1, 1000, 'a'));
($old, $before) = snapshot();
$node->safe_psql('postgres', 'DELETE FROM z WHERE id <= 500;');
$node->safe_psql('postgres', insert(5001, 450, 'b'));
cmp_ok(pointers('z', 'spilled'), '>', 300, 'unlogged table: spilled');
is(views($old), $before, 'unlogged table: read');
finish_session($old);
$node->safe_psql('postgres', q{
CREATE TEMP TABLE z (id int PRIMARY KEY, t text) USING zheap;
INSERT INTO z SELECT g, repeat('a', 80) FROM generate_series(1, 1000) g;
DELETE FROM z WHERE id <= 500;
INSERT INTO z SELECT g + 5000, repeat('a', 80) FROM generate_series(1, 450) g;
});
$node->safe_psql('postgres', 'DROP TABLE z; ALTER TABLE logged RENAME TO z');

# --- rows that fill a page; the largest can't be spilled
$node->safe_psql('postgres', q{
CREATE TABLE big (id int PRIMARY KEY, t text) USING zheap;
ALTER TABLE big ALTER t SET STORAGE PLAIN;
INSERT INTO big SELECT g, repeat('a', 7000 + g * 18) FROM generate_series(1, 60) g});
$old = session($node);
my $big = 'SELECT count(*), sum(length(t)), sum(hashtext(t)::bigint) FROM big';
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
$before = ask($old, $big);
$node->safe_psql('postgres', q{
DELETE FROM big;
INSERT INTO big SELECT g, repeat('b', 6900) FROM generate_series(101, 160) g});
is(ask($old, $big), $before, 'large rows: read');
cmp_ok(pointers('big', 'spilled'), '>', 40, 'large rows: spilled');
cmp_ok(pages('big'), '<', 80, 'large rows: their pages are used again');
check_tables($node, 'large rows');
ask($old, 'COMMIT');
finish_session($old);
$node->safe_psql('postgres', 'DROP TABLE big');

# --- the server dies while it spills
SKIP:
{
	skip 'the server has no assertions', 1
	  if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	my $file;
	for my $point (qw(spill-record-written spill-done))
	{
		fresh_table(1);
		$node->safe_psql('postgres', q{
DROP TABLE IF EXISTS h; CREATE TABLE h AS TABLE z});
		my ($dying) = snapshot();
		$node->safe_psql('postgres', "DELETE FROM $_ WHERE id % 2 = 0") for qw(z h);
		$file = order_point($node, $point, 'crash');
		eval { $node->psql('postgres', insert(5001, 1000, 'b')) };
		ok(!-e $file, "$point was reached") or unlink $file;
		select(undef, undef, undef, 0.3);
		wait_until_up($node) or die "the server did not come back after $point";
		finish_session($dying);
		is( $node->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d}),
			'0', "$point: the rows are there");
		check_tables($node, "after $point");
		my ($again, $seen) = snapshot();
		$node->safe_psql('postgres', 'DELETE FROM z WHERE id % 4 = 1');
		$node->safe_psql('postgres', insert(7001, 1000, 'c'));
		is(views($again), $seen, "$point: spilling goes on");
		finish_session($again);
	}
}

# --- a power cut with spilled rows on the pages
fresh_table(1);
($old, $before) = snapshot();
$node->safe_psql('postgres', 'CHECKPOINT; DELETE FROM z WHERE id % 2 = 0');
$node->safe_psql('postgres', insert(5001, 1400, 'b'));
my $rows = tables_digest($node, ['z']);
my $were = pointers('z', 'spilled');
kill_server($node);
ok(start_after_kill($node), 'recovered');
finish_session($old);
is(tables_digest($node, ['z']), $rows, 'rows after the power cut');
is(pointers('z', 'spilled'), $were, 'spilled pointers after it');
check_tables($node, 'after the power cut');
undo_quiet($node, 'at the end');
$node->safe_psql('postgres', 'VACUUM z');
is(pointers('z', 'spilled'), '0', 'VACUUM frees them');
check_tables($node, 'at the end');
log_is_clean($node);
$node->stop;
done_testing();
