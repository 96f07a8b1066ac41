# What the plugin wal2json says of zheap tables is what it says of their heap
# twins, in both of its formats and with all replica identities.  Skipped where
# the plugin is not installed (Debian: postgresql-15-wal2json).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('wal2json', conf => q{
wal_level = logical
max_replication_slots = 10
logical_decoding_work_mem = 64kB
client_min_messages = error
enable_seqscan = off
enable_bitmapscan = off
autovacuum = off});
$node->start;
plan skip_all => 'wal2json is not installed'
  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'wal2json.so'}) eq '0';
# late minor releases ask which plugins are trusted
if ($node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) ne '0')
{
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'wal2json'\n");
	$node->restart;
}
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# S is the schema, heap's or zheap's.  Rows are found by the key's index, in
# whose order they are changed whatever their places are.
my @history = (
	q{INSERT INTO S.t SELECT g, g % 3, repeat('s', g), CASE g % 4 WHEN 0 THEN repeat('x', 5000) END, g + 0.25, g % 2 = 0, '2020-02-02'::timestamp + g * interval '1 hour' FROM generate_series(1, 12) g},
	q{COPY S.t (id) FROM PROGRAM 'seq 21 29'},
	q{UPDATE S.t SET k = k + 1 WHERE id < 5},
	q{UPDATE S.t SET id = id + 100 WHERE id IN (4, 5)},
	q{UPDATE S.t SET s = repeat('t', 3000) WHERE id = 8},
	q{BEGIN; UPDATE S.t SET k = 0 WHERE id = 6; SAVEPOINT a; DELETE FROM S.t; ROLLBACK TO a; UPDATE S.t SET x = 'short' WHERE id = 104; COMMIT},
	q{INSERT INTO S.t (id, k) VALUES (1, 0), (30, 0) ON CONFLICT (id) DO UPDATE SET k = -1},
	q{ALTER TABLE S.t REPLICA IDENTITY FULL},
	q{UPDATE S.t SET k = 7 WHERE id IN (8, 9)},
	q{DELETE FROM S.t WHERE id IN (8, 10)},
	q{ALTER TABLE S.t REPLICA IDENTITY USING INDEX t_k_id},
	q{UPDATE S.t SET k = 9 WHERE id = 12},
	q{DELETE FROM S.t WHERE id = 12},
	q{ALTER TABLE S.t REPLICA IDENTITY NOTHING},
	q{UPDATE S.t SET k = 11 WHERE id = 11},
	q{ALTER TABLE S.t REPLICA IDENTITY DEFAULT, DROP COLUMN f, ADD COLUMN n int DEFAULT 5},
	q{INSERT INTO S.t (id, k) VALUES (40, 1)},
	q{UPDATE S.t SET n = 6 WHERE id IN (1, 2, 40)},
	q{INSERT INTO S.p SELECT g, g FROM generate_series(1, 6) g},
	q{UPDATE S.p SET id = id + 10 WHERE id < 4},
	q{BEGIN; INSERT INTO S.t (id, k) SELECT g, 0 FROM generate_series(1000, 3000) g; DELETE FROM S.t WHERE id > 2000; COMMIT},
	q{TRUNCATE S.p, S.t});
for my $s ('h', 'z')
{
	my $am = $s eq 'h' ? 'heap' : 'zheap';
	(my $sql = qq{SET default_table_access_method = $am;
CREATE SCHEMA S;
CREATE TABLE S.t (id int PRIMARY KEY, k int NOT NULL DEFAULT 0, s varchar(4000), x text, f numeric(6, 2), b bool, at timestamp);
ALTER TABLE S.t ALTER x SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX t_k_id ON S.t (k, id);
CREATE TABLE S.p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE S.p1 PARTITION OF S.p FOR VALUES FROM (0) TO (10);
CREATE TABLE S.p2 PARTITION OF S.p FOR VALUES FROM (10) TO (100);
}) =~ s/\bS\b/$s/g;
	$node->safe_psql('postgres', $sql);
}

$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('w', 'wal2json')});
for my $step (@history)
{
	for my $s ('h', 'z')
	{
		(my $sql = $step) =~ s/\bS\b/$s/g;
		$node->safe_psql('postgres', $sql);
	}
}
for my $format (1, 2)
{
	my %said;
	for my $s ('h', 'z')
	{
		$said{$s} = $node->safe_psql('postgres', qq{SELECT data FROM pg_logical_slot_peek_changes('w', NULL, NULL, 'format-version', '$format', 'add-tables', '$s.*', 'include-types', '1', 'include-pk', '1')});
		$said{$s} =~ s/"schema":"$s"/"schema":"S"/g;
		# of the other side's transactions no change is told
		$said{$s} =~ s/^\{("change":\[\]|"action":"[BC]")\}\n?//mg;
	}
	my $n = () = $said{h} =~ /"schema":"S"/g;
	cmp_ok($n, '>', 3000, "format $format tells of $n changes of heap tables");
	ok($said{z} eq $said{h}, "format $format says the same of zheap tables");
	next if $said{z} eq $said{h};
	my @h = split /\n/, $said{h};
	my @z = split /\n/, $said{z};
	for my $i (0 .. $#h)
	{
		next if ($z[$i] // '') eq $h[$i];
		diag(substr($h[$i], 0, 2000), "\n", substr($z[$i] // '', 0, 2000));
		last;
	}
}
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
