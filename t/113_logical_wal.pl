# wal_level = logical: bytes of WAL per row of each operation against a budget,
# with heap's beside it; and decoding on a standby (16 and later), before and
# after it is promoted, gives what decoding on the primary gives.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = PostgreSQL::Test::Cluster->new('primary');
init_without_checksums($node);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
wal_level = logical
max_wal_senders = 10
max_replication_slots = 10
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
hot_standby_feedback = on
wal_receiver_status_interval = 1s
});
$node->append_conf('pg_hba.conf', "local replication all trust\n");
$node->start;
my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# bytes per row; budgets for replica identities DEFAULT and FULL
my @steps = (
	[ 'INSERT .. SELECT', q{INSERT INTO t SELECT g, g, 0, repeat('a', 80) FROM generate_series(1, 5000) g}, 5000, 160, 160 ],
	[ 'UPDATE', 'UPDATE t SET v = v + 1', 5000, 190, 198 ],
	[ 'single UPDATEs', 'DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE t SET v = v + 1 WHERE id = i * 3; COMMIT; END LOOP; END $$', 1000, 230, 238 ],
	[ 'single INSERTs', q{DO $$ BEGIN FOR i IN 1..1000 LOOP INSERT INTO t VALUES (i + 10000, 1, 1, 'x'); COMMIT; END LOOP; END $$}, 1000, 206, 206 ],
	[ 'single DELETEs', 'DO $$ BEGIN FOR i IN 1..1000 LOOP DELETE FROM t WHERE id = i + 10000; COMMIT; END LOOP; END $$', 1000, 140, 148 ],
	[ 'DELETE', 'DELETE FROM t WHERE id < 3000', 3000, 68, 158 ]);
my @less = ('UPDATE', 'DELETE', 'single UPDATEs');
for my $identity ('DEFAULT', 'FULL')
{
	my %bytes;
	for my $am ('heap', 'zheap')
	{
		$node->safe_psql('postgres', "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, k int, v int, t text) USING $am");
		for my $step (@steps)
		{
			my ($what, $sql, $rows, @budget) = @$step;
			# what rows cost depends on whether their writers are settled
			$node->poll_query_until('postgres', 'SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()') or die 'undo is not drained';
			my $before = $node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_wal_insert_lsn()');
			$node->safe_psql('postgres', $_) for 'SET synchronous_commit = off', $sql;
			my $n = $bytes{$what}{$am} = $node->safe_psql('postgres', "SELECT ((pg_current_wal_insert_lsn() - '$before') / $rows.0)::numeric(20, 1)");
			$node->safe_psql('postgres', "VACUUM t; ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t REPLICA IDENTITY $identity") if $what =~ /SELECT/;
			next if $am eq 'heap';
			my $budget = $budget[ $identity eq 'FULL' ];
			cmp_ok($n, '<=', $budget, "$what, identity $identity: $n bytes per row, heap $bytes{$what}{heap}");
		}
	}
	cmp_ok($bytes{$_}{zheap}, '<=', $bytes{$_}{heap} * 1.03, "$_, identity $identity: no more than heap") for @less;
	# a record of its own, which names the undo page: that takes 20 bytes
	cmp_ok($bytes{$_}{zheap}, '<=', $bytes{$_}{heap} + 20, "$_, identity $identity: heap and an undo page's name") for 'single INSERTs', 'single DELETEs';
}

SKIP: {
	skip 'no decoding on a standby before 16', 3 if $major < 16;
	skip 'test_decoding is not installed', 3
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'test_decoding.so'}) eq '0';
	my $get = q{SELECT left(data, 100) FROM pg_logical_slot_get_changes('SLOT', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')};
	my $standby = zheap_standby($node, slot => 'phys');
	$node->safe_psql('postgres', q{DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int, x text) USING zheap; ALTER TABLE t ALTER x SET STORAGE EXTERNAL});
	$node->wait_for_catchup($standby);
	$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('there', 'test_decoding')});
	$standby->create_logical_slot_on_standby($node, 'here', 'postgres');
	$node->safe_psql('postgres', q{INSERT INTO t SELECT g, g, CASE g WHEN 3 THEN repeat('x', 5000) END FROM generate_series(1, 10) g; UPDATE t SET v = 0 WHERE id < 5; UPDATE t SET id = 100 WHERE id = 3;
BEGIN; SAVEPOINT s; DELETE FROM t WHERE id = 7; ROLLBACK TO s; DELETE FROM t WHERE id = 8; COMMIT});
	(my $there = $get) =~ s/SLOT/there/;
	(my $here = $get) =~ s/SLOT/here/;
	$node->wait_for_catchup($standby);
	my $want = $node->safe_psql('postgres', $there);
	like($want, qr/INSERT.*UPDATE.*UPDATE: old-key: id\[integer\]:3.*DELETE/s, 'decoded on the primary');
	is($standby->safe_psql('postgres', $here), $want, 'and on the standby');
	$node->stop;
	$standby->promote;
	$standby->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 9');
	is($standby->safe_psql('postgres', $here), "BEGIN\ntable public.t: UPDATE: id[integer]:9 v[integer]:10 x[text]:null\nCOMMIT", 'and after it was promoted');
	check_tables($standby, 'at the end');
	$standby->stop;
	log_is_clean($standby);
}
$node->stop if $node->{_pid};
log_is_clean($node);
done_testing();
