# Nothing of a zheap table is ever frozen: after three jumps of 1.4 billion
# transactions each, so that xids come round to those that wrote the tables,
# all rows are right, though only heap tables were vacuumed.  Databases with
# zheap tables don't hold back datfrozenxid, rewritten tables neither.  A
# rollback that is stuck holds the commit log it needs, and says so.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('horizons', conf => q{
autovacuum = off
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
	# ALTER TABLE's rewrite gives even a zheap table a relfrozenxid
	$node->safe_psql('postgres', 'VACUUM rewritten');
	is($node->safe_psql('postgres', q{SELECT relname FROM pg_class WHERE relname IN ('z', 'rewritten') AND relfrozenxid <> '0' AND age(relfrozenxid) > 1000}),
		'', 'no zheap table is old');
	freeze_heap() if age_of_cluster() > 1000;
	cmp_ok(age_of_cluster(), '<', 1000, 'nor is any database');
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

# --- a rollback that is stuck while 60 million transactions pass
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE z SET c = 0; DELETE FROM z WHERE k < 100; ROLLBACK;});
$node->stop;
jump(1, $first + (60 << 20));
$node->start;
my $log = '';
for (1 .. 100)
{
	$log = slurp_file($node->logfile);
	last if $log =~ /was aborted long ago/;
	select(undef, undef, undef, 0.1);
}
like($log, qr/WARNING:  transaction \d+ was aborted long ago and is not rolled back yet/, 'a stuck rollback is told');
freeze_heap();
cmp_ok(age_of_cluster(), '>', 59 << 20, 'and holds the commit log');
is($node->safe_psql('postgres', $differ), '0', 'rows are right meanwhile');
set_conf($node, 'zheap.rollback_paused' => 'off');
is($node->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'it goes on');
undo_quiet($node, 'after the stuck rollback');
$node->safe_psql('postgres', 'VACUUM rewritten');
freeze_heap();
freeze_heap() if age_of_cluster() > 1000;
cmp_ok(age_of_cluster(), '<', 1000, 'then the commit log can be cut');
is($node->safe_psql('postgres', $differ), '0', 'rows are right');
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
