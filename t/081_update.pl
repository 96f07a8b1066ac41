# From 1.0 to 1.1: the server starts with today's library on files of 1.0, with
# data, old versions, prepared transactions and pending rollbacks in them, after
# a clean stop and after a crash; then ALTER EXTENSION UPDATE.  Nothing is lost.
#
# ZHEAP_OLD_INSTALL names a server with the library of 1.0 (tools/update-check
# makes one); without it today's library plays 1.0, with the script of 1.0.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $install = $ENV{ZHEAP_OLD_INSTALL};
note($install ? "with the library of 1.0" : "with today's library");

sub old_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $install ? (install_path => $install) : ());
	$node->init(extra => ['--data-checksums']);
	$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
zheap.discard_naptime = 50ms
zheap.rollback_paused = on
zheap.rollback_foreground_size = 0
max_prepared_transactions = 10
autovacuum = off
wal_consistency_checking = 'zheap'
});
	$node->start;
	return $node;
}

my $digest = join "\n", map { "SELECT count(*), sum(k::bigint * v), md5(string_agg(t, ',' ORDER BY k)) FROM $_;" } qw(rows long un);

for my $end ('stop', 'crash')
{
	my $node = old_node("from10_$end");
	$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am VERSION '1.0';
CREATE TABLE rows (k int PRIMARY KEY, v int, t text) USING zheap;
CREATE INDEX ON rows (v);
CREATE TABLE long (k int PRIMARY KEY, v int, t text) USING zheap;
CREATE UNLOGGED TABLE un (k int PRIMARY KEY, v int, t text) USING zheap;
INSERT INTO rows SELECT g, g % 10, repeat('r', g % 50) FROM generate_series(1, 5000) g;
INSERT INTO long SELECT g, 0, repeat(md5(g::text), 300) FROM generate_series(1, 50) g;
UPDATE rows SET t = t || 'x' WHERE k % 3 = 0;
DELETE FROM rows WHERE k % 100 = 0;
UPDATE rows SET v = v + 100 WHERE k % 7 = 0;
CHECKPOINT;
UPDATE long SET t = repeat(md5(k::text || 'new'), 300) WHERE k % 2 = 0;
BEGIN; UPDATE rows SET t = 'prepared' WHERE k BETWEEN 1 AND 50; PREPARE TRANSACTION 'commits';
BEGIN; UPDATE rows SET t = 'prepared' WHERE k BETWEEN 101 AND 150; DELETE FROM long WHERE k < 5; PREPARE TRANSACTION 'aborts';
INSERT INTO un SELECT g, g, 'u' FROM generate_series(1, 100) g WHERE } . ($end eq 'stop' ? 'true' : 'false') . q{;
});
	# a table each, so that nobody who reads or writes rolls them back by the way
	$node->safe_psql('postgres', 'CREATE TABLE kept AS ' . ($digest =~ s/;\n/ UNION ALL /gr =~ s/;//r));
	my $before = $node->safe_psql('postgres', $digest);
	$node->safe_psql('postgres', q{
BEGIN; UPDATE rows SET v = -1, t = 'undone' WHERE k > 2000; SAVEPOINT s; DELETE FROM rows WHERE k > 4000; ROLLBACK TO s; INSERT INTO rows SELECT g, 0, 'undone' FROM generate_series(10001, 12000) g; ROLLBACK;
BEGIN; DELETE FROM long WHERE k > 20; ROLLBACK});
	is($node->safe_psql('postgres', q{SELECT extversion, (SELECT count(*) FROM pg_stat_zheap_undo_holders WHERE kind = 'pending rollback') FROM pg_extension WHERE extname = 'zheap_am'}), '1.0|1', "$end: 1.0, with a pending rollback") if $node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_zheap_undo_holders WHERE kind = 'pending rollback'});
	is($node->safe_psql('postgres', q{SELECT count(*) FROM information_schema.columns WHERE table_name = 'pg_stat_zheap_undo_holders'}), '12', "$end: view of 1.0");

	if ($end eq 'stop') { $node->stop } else { kill_server($node) }
	delete $node->{_install_path};
	ok(start_after_kill($node), "$end: today's library starts on it");
	is($node->safe_psql('postgres', $digest), $before, "$end: all data are there, without what was aborted");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_zheap_undo WHERE retained_bytes >= 0') > 0, 1, "$end: views of 1.0 work");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_zheap_undo_holders WHERE age >= 0') > 0, 1, "$end: and these");

	$node->safe_psql('postgres', q{CREATE VIEW mine AS SELECT kind, pid, age FROM pg_stat_zheap_undo_holders; ALTER EXTENSION zheap_am UPDATE});
	is($node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'zheap_am'}), '1.1', "$end: updated");
	$node->safe_psql('postgres', 'CREATE DATABASE fresh');
	$node->safe_psql('fresh', 'CREATE EXTENSION zheap_am');
	my $objects = q{SELECT pg_describe_object(classid, objid, 0), pg_identify_object(classid, objid, 0) FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'zheap_am') ORDER BY 1};
	is($node->safe_psql('postgres', $objects), $node->safe_psql('fresh', $objects), "$end: the same objects as a new installation has");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM mine') > 0, 1, "$end: views of users on ours still work");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_zheap_undo_totals}), '1', "$end: new views");

	set_conf($node, 'zheap.rollback_paused' => 'off');
	$node->safe_psql('postgres', q{COMMIT PREPARED 'commits'; ROLLBACK PREPARED 'aborts'});
	undo_quiet($node, "$end: rolled back");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM rows WHERE t = 'prepared'}), '50', "$end: prepared transactions ended as told");
	is($node->safe_psql('postgres', q{SELECT count(*), sum(v), (SELECT count(*) FROM long) FROM rows WHERE t <> 'prepared'}),
		$node->safe_psql('postgres', q{SELECT count(*), sum(g % 10 + CASE WHEN g % 7 = 0 THEN 100 ELSE 0 END), 50 FROM generate_series(51, 5000) g WHERE g % 100 <> 0}), "$end: nothing is lost, nothing invented");
	$node->safe_psql('postgres', 'UPDATE rows SET v = v + 1; VACUUM rows; UPDATE rows SET t = t || t WHERE k < 1000');
	check_tables($node, "$end: at the end");
	$node->stop;
	log_is_clean($node);
}
done_testing();
