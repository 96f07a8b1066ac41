# Nothing of a zheap table is ever frozen: after three jumps of 1.4 billion
# transactions each, so that xids come round to those that wrote the tables,
# all rows are right.  relfrozenxid of zheap tables holds the commit log until
# VACUUM advances it to U; autovacuum does that without reading a page.  A
# rollback that is stuck holds the commit log it needs, and says so.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# Beyond autovacuum_freeze_max_age a launcher comes in spite of autovacuum = off,
# for each VACUUM that advances a database.  PostgreSQL takes the whole server
# down if one finds no process slot: three workers and a fourth that is about to
# leave are enough for that.
my $node = zheap_node('horizons', conf => q{
autovacuum = off
autovacuum_max_workers = 15
log_autovacuum_min_duration = -1
});

# Let the next xid be this one; the server must be down.  At the beginning of
# a commit log segment, which needn't exist then.
sub jump
{
	my ($epoch, $xid) = @_;
	command_ok([ 'pg_resetwal', '-e', $epoch, '-x', $xid, '-D', $node->data_dir ], "xids go on at $epoch:$xid");
	return;
}

# All tables but ours, in all databases.
sub freeze_heap
{
	my $list = q{SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relkind IN ('r', 'm', 't') AND a.amname = 'heap' AND NOT (c.relpersistence = 't')};
	for my $db (qw(postgres template1 template0))
	{
		my @names = split /\n/, $node->safe_psql($db, $list);
		$node->safe_psql($db, join '', map { "VACUUM (FREEZE) $_;\n" } @names);
	}
	return;
}

sub age_of_cluster
{
	return $node->safe_psql('postgres', 'SELECT max(age(datfrozenxid)) FROM pg_database');
}

my $first = 1 << 20;
$node->start;
$node->stop;
jump(0, $first);
$node->start;
$node->safe_psql('postgres', q{
ALTER DATABASE template0 ALLOW_CONNECTIONS true;
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text);
CREATE TABLE rewritten (a int, b text) USING zheap;
INSERT INTO z SELECT g, g, 'first' FROM generate_series(1, 2000) g;
INSERT INTO rewritten SELECT g, 'r' FROM generate_series(1, 100) g;
ALTER TABLE rewritten ALTER a TYPE bigint;
UPDATE z SET c = c + 1 WHERE k % 2 = 0;
DELETE FROM z WHERE k % 7 = 0;
BEGIN; UPDATE z SET c = 0; SAVEPOINT a; DELETE FROM z; ROLLBACK;
});
# rows of many writers a page
$node->safe_psql('postgres', join '', map { "UPDATE z SET t = 'by $_' WHERE k % 50 = $_;\n" } 1 .. 20);
$node->safe_psql('postgres', 'INSERT INTO h TABLE z');
my $differ = 'SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d';
my $n = 0;

for my $to ([ 0, 1365 << 20 ], [ 0, 2730 << 20 ], [ 1, $first ])
{
	$node->stop;
	jump(@$to);
	$node->start;
	is($node->safe_psql('postgres', $differ), '0', 'all rows are right after the jump');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(a) FROM rewritten'), '100|5050', 'also of a rewritten table');

	# new owners with old ones on the same page; some abort, some go on
	$n++;
	my $running = session($node);
	ask($running, "BEGIN; UPDATE z SET c = -1, t = 'never' WHERE k % 10 = 3");
	for my $t (qw(z h))
	{
		$node->safe_psql('postgres', "UPDATE $t SET c = c + $n WHERE k % 10 = 1; DELETE FROM $t WHERE k = 10 * $n + 1;\n"
			  . "BEGIN; UPDATE $t SET c = 0 WHERE k % 10 = 2; ROLLBACK; INSERT INTO $t VALUES (-$n, $n, 'jump')");
	}
	is($node->safe_psql('postgres', $differ), '0', 'and when they are changed');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM z WHERE k BETWEEN 1 AND 300"),
		$node->safe_psql('postgres', 'SELECT count(*) FROM h WHERE k BETWEEN 1 AND 300'), 'through the index');
	ask($running, 'ROLLBACK');
	finish_session($running);
	undo_quiet($node, 'after the jump');
	freeze_heap();
	$node->safe_psql('postgres', 'VACUUM rewritten; VACUUM z');
	is($node->safe_psql('postgres', q{SELECT relname FROM pg_class WHERE relname IN ('z', 'rewritten') AND age(relfrozenxid) > 1000}),
		'', 'no zheap table is old after VACUUM');
	freeze_heap() if age_of_cluster() > 1000;
	cmp_ok(age_of_cluster(), '<', 1000, 'nor any database');
	is($node->safe_psql('postgres', $differ), '0', 'rows are right when the commit log was cut');
	check_tables($node, 'after the jump');
}

# --- the xids are back where they began: those of old owners run and abort now
my $xid = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()::text::numeric');
cmp_ok($xid, '>', 4294967296, 'xids have come round');
my @many = map { session($node) } 1 .. 20;
ask($_, 'BEGIN; SELECT pg_current_xact_id()') for @many;
is($node->safe_psql('postgres', $differ), '0', 'xids of old writers run again');
ask($_, 'ROLLBACK') for @many;
is($node->safe_psql('postgres', $differ), '0', 'and abort');
finish_session($_) for @many;

# --- a rollback that is stuck while 9 and then 300 million transactions pass
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE z SET c = 0; DELETE FROM z WHERE k < 100; ROLLBACK;});
for my $age (9, 300)
{
	$node->stop;
	jump(1, $first + ($age << 20));
	$node->start;
	freeze_heap();
	my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM z; VACUUM FREEZE rewritten');
	is($rc, 0, 'VACUUM can do nothing about it');
	if ($age > 200)
	{
		like($err, qr/WARNING:  relfrozenxid of zheap tables cannot be advanced beyond transaction \d+\nDETAIL:  Transaction \d+ was aborted and is not rolled back yet/, 'and says so');
	}
	else
	{
		unlike($err, qr/WARNING/, 'and is no cause for alarm');
	}
	freeze_heap();
	cmp_ok(age_of_cluster(), '>', ($age - 1) << 20, "the commit log is held, $age million");
	is($node->safe_psql('postgres', $differ), '0', 'rows are right meanwhile');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(a) FROM rewritten'), '100|5050', 'of other tables, too');
}
$node->wait_for_log(qr/WARNING:  transaction \d+ was aborted long ago and is not rolled back yet/);
set_conf($node, 'zheap.rollback_paused' => 'off');
is($node->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'it goes on');
undo_quiet($node, 'after the stuck rollback');
$node->safe_psql('postgres', 'VACUUM FREEZE rewritten; VACUUM FREEZE z');
freeze_heap();
freeze_heap() if age_of_cluster() > 1000;
cmp_ok(age_of_cluster(), '<', 1000, 'then the commit log can be cut');
is($node->safe_psql('postgres', $differ), '0', 'rows are right');
check_tables($node, 'at the end');

# --- autovacuum against wraparound: it reads no page, which would be an error
# here, and cleans nothing
$node->safe_psql('postgres', q{
CREATE TABLE damaged (a int, b text) USING zheap WITH (autovacuum_enabled = off);
INSERT INTO damaged SELECT g, repeat('d', 100) FROM generate_series(1, 1000) g;
CHECKPOINT});
my $file = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('damaged')});
$node->stop;
overwrite($node->data_dir . "/$file", 8192 * $_ + 100, 'no page') for 0 .. 3;
jump(1, $first + (302 << 20));
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
autovacuum_freeze_max_age = 1000000
log_autovacuum_min_duration = 0
});
$node->start;
$node->wait_for_log(qr/LOG:  automatic vacuum to prevent wraparound of table "postgres.public.$_": advanced relfrozenxid, read no page/)
  for qw(z damaged rewritten);
ok( $node->poll_query_until('postgres', q{SELECT max(age(relfrozenxid)) < 1000000 FROM pg_class WHERE relname IN ('z', 'damaged', 'rewritten')}),
	'relfrozenxid was advanced');
isnt($node->psql('postgres', 'SELECT count(*) FROM damaged'), 0, 'the page is damaged indeed');
is($node->safe_psql('postgres', $differ), '0', 'rows are right');
$node->stop;
log_is_clean($node, qr/damaged|invalid page/);
done_testing();
