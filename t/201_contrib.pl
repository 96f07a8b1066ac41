# Each contrib module of the server on a zheap table: the answers are those of
# a heap twin, or an error says that the module knows heap only.  What is not
# installed is skipped, by name.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('contrib', conf => q{
track_commit_timestamp = on
track_functions = all
wal_level = logical});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

my %installed = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres', 'SELECT name FROM pg_available_extensions');
my %library = map { s/\.so$//r => 1 } split /\n/,
  $node->safe_psql('postgres', q{SELECT pg_ls_dir(setting) FROM pg_config WHERE name = 'PKGLIBDIR'});

# twins: tables z_NAME and h_NAME, changed alike
sub sql
{
	my ($sql) = @_;
	for my $twin ('z_', 'h_')
	{
		(my $s = $sql) =~ s/\bT_/$twin/g;
		$node->safe_psql('postgres',
			'SET default_table_access_method = ' . ($twin eq 'z_' ? 'zheap' : 'heap') . ";\n$s");
	}
}

# rows may come in another order
sub same
{
	my ($what, $sql) = @_;
	my @answer;
	for my $twin ('z_', 'h_')
	{
		(my $s = $sql) =~ s/\bT_/$twin/g;
		my ($rc, $out, $err) = $node->psql('postgres', $s);
		$err =~ s/\b[zh]_/T_/g;
		$out =~ s/\b[zh]_/T_/g;
		push @answer, join("\n", sort split(/\n/, $out)) . "\n$err";
	}
	isnt($answer[0], "\n", "$what answers") or return;
	is($answer[0], $answer[1], "$what: as heap");
}

sub fails
{
	my ($what, $sql, $error) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	like($err, $error, "$what is refused");
}

# the tests of a module, if it is there
sub with
{
	my ($name, $tests) = @_;
  SKIP: {
		skip "$name is not installed", 1 unless $installed{$name};
		my @missing = grep { !$installed{$_} } split /,/,
		  $node->safe_psql('postgres', qq{SELECT array_to_string(requires, ',') FROM pg_available_extension_versions WHERE name = '$name' LIMIT 1});
		skip "$name needs @missing", 1 if @missing;
		my ($rc, $out, $err) = $node->psql('postgres', qq{CREATE EXTENSION IF NOT EXISTS "$name" CASCADE});
		is($rc, 0, "CREATE EXTENSION $name") or diag($err);
		$tests->() if $rc == 0;
	}
}

sql(q{
CREATE TABLE T_t (id int PRIMARY KEY, v int, k int, t text);
CREATE INDEX T_k ON T_t (k);
INSERT INTO T_t SELECT g, g, g % 100, 'text ' || g FROM generate_series(1, 3000) g;
UPDATE T_t SET v = v + 1 WHERE id % 2 = 0;
UPDATE T_t SET k = k + 100 WHERE id % 5 = 0;
DELETE FROM T_t WHERE id % 10 = 7;
});
$node->safe_psql('postgres', 'VACUUM');

# --- what looks into pages
my $heap_only = qr/only heap AM is supported/;
with pgstattuple => sub {
	fails('pgstattuple', q{SELECT pgstattuple('z_t')}, $heap_only);
	fails('pgstattuple_approx', q{SELECT pgstattuple_approx('z_t')}, $heap_only);
	same('pgstatindex', q{SELECT version, tree_level FROM pgstatindex('T_t_pkey')});
	is($node->safe_psql('postgres', q{SELECT pg_relpages('z_t') = pg_relation_size('z_t') / 8192}), 't', 'pg_relpages');
};
with pageinspect => sub {
	fails('heap_page_items', q{SELECT heap_page_items(get_raw_page('z_t', 0))}, qr/heap_page_items cannot read a page of access method zheap\nHINT:.*zheap_page_items/);
	fails('heap_page_item_attrs', q{SELECT heap_page_item_attrs(get_raw_page('z_t', 0), 'z_t')}, qr/access method zheap/);
	fails('tuple_data_split', q{SELECT tuple_data_split('z_t'::regclass, '\x00', 0, 0, NULL)}, $heap_only);
	cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM heap_page_items(get_raw_page('h_t', 0))}), '>', 50, 'heap_page_items of heap');
	is($node->safe_psql('postgres', q{SELECT pagesize, version FROM page_header(get_raw_page('z_t', 0))}), '8192|4', 'page_header');
	is($node->safe_psql('postgres', q{SELECT checksum = page_checksum(p, 0) OR lsn > '0/0' FROM get_raw_page('z_t', 0) p, page_header(p)}), 't', 'page_checksum');
	same('bt_metap', q{SELECT level, allequalimage FROM bt_metap('T_k')});
	same('fsm_page_contents', q{SELECT fsm_page_contents(get_raw_page('T_t', 'fsm', 0)) IS NOT NULL});
};
with pg_freespacemap => sub {
	same('pg_freespace', q{SELECT count(*) = pg_relation_size('T_t') / 8192, bool_and(avail BETWEEN 0 AND 8192) FROM pg_freespace('T_t')});
};
with pg_visibility => sub {
	same('pg_visibility_map', q{SELECT bool_and(all_visible) FROM pg_visibility_map('T_t')});
	same('pg_visibility', q{SELECT bool_and(pd_all_visible = all_visible) FROM pg_visibility('T_t')});
	fails('pg_check_visible', q{SELECT pg_check_visible('z_t')}, qr/pg_check_visible cannot read table "z_t" of access method zheap\nHINT:.*zheap_check/);
	fails('pg_check_frozen', q{SELECT * FROM pg_check_frozen('z_t')}, qr/pg_check_frozen cannot read table "z_t" of access method zheap/);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_check_visible('h_t')}), 0, 'pg_check_visible of heap');
	$node->safe_psql('postgres', q{SELECT pg_truncate_visibility_map('z_t')});
	is($node->safe_psql('postgres', q{SELECT all_visible FROM pg_visibility_map_summary('z_t')}), 0, 'visibility map truncated');
	same('after pg_truncate_visibility_map', 'SELECT count(*), sum(v), sum(k) FROM T_t');
	sql('UPDATE T_t SET v = v + 1 WHERE id < 100; DELETE FROM T_t WHERE id = 1; INSERT INTO T_t VALUES (1, 1, 1, NULL)');
	$node->safe_psql('postgres', 'VACUUM z_t');
	check_tables($node, 'a truncated visibility map');
};
with pg_surgery => sub {
	fails('heap_force_kill', q{SELECT heap_force_kill('z_t', ARRAY['(0,1)']::tid[])}, $heap_only);
	fails('heap_force_freeze', q{SELECT heap_force_freeze('z_t', ARRAY['(0,1)']::tid[])}, $heap_only);
};
with amcheck => sub {
	fails('verify_heapam', q{SELECT verify_heapam('z_t')}, $heap_only);
	is($node->safe_psql('postgres', q{SELECT bt_index_check('z_k', true), bt_index_parent_check('z_k', true, true)}), '|', 'bt_index_check');
	$node->command_ok([ 'pg_amcheck', '-d', 'postgres', '--heapallindexed', '-i', 'z_t*' ], 'pg_amcheck') if check_pg_config_or_program('pg_amcheck');
};
with pgrowlocks => sub {
	fails('pgrowlocks', q{SELECT pgrowlocks('z_t')}, $heap_only);
};
with pg_buffercache => sub {
	same('pg_buffercache', q{SELECT count(*) > 0 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('T_t')});
};
with pg_prewarm => sub {
	for my $how ('buffer', 'read', 'prefetch')
	{
		is($node->safe_psql('postgres', qq{SELECT pg_prewarm('z_t', '$how') = pg_relation_size('z_t') / 8192}), 't', "pg_prewarm $how");
	}
};
with pg_walinspect => sub {
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
	sql('UPDATE T_t SET v = v + 1; DELETE FROM T_t WHERE id = 2; INSERT INTO T_t VALUES (2, 2, 2, NULL)');
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
	my $out = $node->safe_psql('postgres', qq{SELECT DISTINCT record_type FROM pg_get_wal_records_info('$lsn', '$end') WHERE resource_manager = 'zheap' ORDER BY 1});
	like($out, qr/UPDATE/, 'pg_walinspect names records');
	is($node->safe_psql('postgres', qq{SELECT count(*) FROM pg_get_wal_records_info('$lsn', '$end') WHERE resource_manager = 'zheap' AND (record_type IS NULL OR record_type ~ 'UNKNOWN')}), 0, 'all of them');
	cmp_ok($node->safe_psql('postgres', qq{SELECT count FROM pg_get_wal_stats('$lsn', '$end') WHERE "resource_manager/record_type" = 'zheap'}), '>', 100, 'pg_get_wal_stats');
};

# --- index access methods and operator classes
with bloom => sub {
	sql('CREATE INDEX T_bloom ON T_t USING bloom (v, k)');
	my $q = q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM T_t WHERE v = 17 AND k = 16; SELECT count(*), sum(id) FROM T_t WHERE k = 150};
	same('bloom', $q);
	sql('UPDATE T_t SET v = v + 1 WHERE id % 3 = 0; DELETE FROM T_t WHERE id % 50 = 3');
	same('bloom after changes', $q);
	$node->safe_psql('postgres', 'VACUUM z_t; VACUUM h_t');
	sql('INSERT INTO T_t SELECT g, 17, 16, NULL FROM generate_series(5001, 5100) g');
	same('bloom after vacuum', $q);
	sql('DROP INDEX T_bloom');
};
with btree_gin => sub {
	sql('CREATE INDEX T_gin ON T_t USING gin (k, v)');
	my $q = q{SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(*), sum(id) FROM T_t WHERE k BETWEEN 3 AND 8 AND v < 500};
	same('btree_gin', $q);
	sql('UPDATE T_t SET t = NULL WHERE id % 3 = 1; UPDATE T_t SET v = v + 1 WHERE id % 4 = 1');
	same('btree_gin after changes', $q);
	sql('DROP INDEX T_gin');
};
with btree_gist => sub {
	sql('CREATE INDEX T_gist ON T_t USING gist (k, v); CREATE TABLE T_ex (id int, r int4range, EXCLUDE USING gist (id WITH =, r WITH &&))');
	my $q = q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM T_t WHERE k BETWEEN 3 AND 8 AND v < 500; SELECT v <-> 700 FROM T_t WHERE k = 5 ORDER BY v <-> 700 LIMIT 3};
	same('btree_gist', $q);
	sql('UPDATE T_t SET t = NULL WHERE id % 3 = 1; UPDATE T_t SET v = v + 1 WHERE id % 4 = 1');
	same('btree_gist after changes', $q);
	sql(q{INSERT INTO T_ex VALUES (1, '[1,5)'), (2, '[1,5)'), (1, '[5,7)')});
	same('exclusion by btree_gist', q{UPDATE T_ex SET r = '[4,6)' WHERE id = 1});
	sql('DROP INDEX T_gist');
};
with pg_trgm => sub {
	sql('CREATE INDEX T_trgm ON T_t USING gin (t gin_trgm_ops); CREATE INDEX T_trgs ON T_t USING gist (t gist_trgm_ops)');
	same('pg_trgm', q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM T_t WHERE t LIKE '%ext 12%'; SELECT count(*) FROM T_t WHERE t % 'text 100'});
	sql('DROP INDEX T_trgm, T_trgs');
};
for my $type ([ hstore => q{'a=>1,b=>2'}, q{x -> 'a'} ], [ ltree => q{'a.b.c'}, 'nlevel(x)' ], [ cube => q{'(1,2,3)'}, 'cube_dim(x)' ],
	[ citext => q{'AbC'}, q{x = 'abc'} ], [ isn => q{'978-0-393-04002-9'}, 'isbn(x)', 'isbn13' ], [ seg => q{'1.0 .. 2.50'}, 'seg_size(x)' ])
{
	my ($name, $value, $expr, $as) = @$type;
	$as //= $name;
	with $name => sub {
		sql("CREATE TABLE T_$name (id int, x $as); INSERT INTO T_$name SELECT g, $value FROM generate_series(1, 5) g; UPDATE T_$name SET id = id + 1");
		same($name, "SELECT id, x, $expr FROM T_$name ORDER BY id");
	};
}
with intarray => sub {
	sql(q{CREATE TABLE T_ia (id int, a int[]); INSERT INTO T_ia SELECT g, ARRAY[g % 7, g % 5] FROM generate_series(1, 200) g;
		CREATE INDEX T_iag ON T_ia USING gist (a gist__int_ops); CREATE INDEX T_iai ON T_ia USING gin (a gin__int_ops);
		UPDATE T_ia SET id = -id WHERE id % 2 = 0; UPDATE T_ia SET a = a + 3 WHERE id > 150});
	same('intarray', q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM T_ia WHERE a @@ '3&4'});
};

# --- triggers
with lo => sub {
	sql(q{CREATE TABLE T_lo (id int, o lo); CREATE TRIGGER m BEFORE UPDATE OR DELETE ON T_lo FOR EACH ROW EXECUTE FUNCTION lo_manage(o);
		INSERT INTO T_lo VALUES (1, lo_create(0)), (2, lo_create(0)); UPDATE T_lo SET id = id + 10; UPDATE T_lo SET o = lo_create(0) WHERE id = 11});
	same('lo_manage', 'SELECT count(*) FROM T_lo JOIN pg_largeobject_metadata m ON m.oid = o');
	sql('DELETE FROM T_lo WHERE id = 12');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_largeobject_metadata'), 2, 'lo_manage unlinks');
};
with tcn => sub {
	sql('CREATE TRIGGER tcn AFTER INSERT OR UPDATE OR DELETE ON T_t FOR EACH ROW EXECUTE FUNCTION triggered_change_notification(ch)');
	my $s = session($node);
	my @got;
	for my $twin ('z_', 'h_')
	{
		my $out = ask($s, "LISTEN ch; BEGIN; UPDATE ${twin}t SET v = v + 1 WHERE id = 10; UPDATE ${twin}t SET k = k + 1 WHERE id = 10; DELETE FROM ${twin}t WHERE id = 10; COMMIT; SELECT 1");
		$out =~ s/with server process with PID \d+|from server process with PID \d+//g;
		$out =~ s/\b[zh]_/T_/g;
		push @got, $out;
	}
	like($got[0], qr/"T_t",U,"id"='10'/, 'tcn notifies');
	is($got[0], $got[1], 'tcn: as heap');
	finish_session($s);
	sql('DROP TRIGGER tcn ON T_t');
};
for my $spi (qw(autoinc insert_username moddatetime refint))
{
	with $spi => sub {
		return if $spi ne 'moddatetime';
		sql(q{CREATE TABLE T_md (id int, v int, m timestamptz); INSERT INTO T_md VALUES (1, 1, '2000-01-01');
			CREATE TRIGGER m BEFORE UPDATE ON T_md FOR EACH ROW EXECUTE FUNCTION moddatetime(m); UPDATE T_md SET v = 2});
		same('moddatetime', q{SELECT id, v, m > '2000-01-02' FROM T_md});
	};
}
with refint => sub {
	# they must be AFTER triggers since 18
	my $when = $node->pg_version >= 18 ? 'AFTER' : 'BEFORE';
	sql(qq{CREATE TABLE T_rp (id int PRIMARY KEY); CREATE TABLE T_rc (id int);
		CREATE TRIGGER c $when INSERT OR UPDATE ON T_rc FOR EACH ROW EXECUTE FUNCTION check_primary_key('id', 'T_rp', 'id');
		CREATE TRIGGER f $when DELETE OR UPDATE ON T_rp FOR EACH ROW EXECUTE FUNCTION check_foreign_key(1, 'cascade', 'id', 'T_rc', 'id');
		INSERT INTO T_rp VALUES (1), (2); INSERT INTO T_rc VALUES (1), (2); DELETE FROM T_rp WHERE id = 2});
	same('refint', 'SELECT count(*), sum(id) FROM T_rc; INSERT INTO T_rc VALUES (99)');
};

# --- sampling, pivoting, other servers and files
with tsm_system_rows => sub {
	same('tsm_system_rows', 'SELECT count(*) FROM T_t TABLESAMPLE system_rows(100)');
	same('tsm_system_rows of all', 'SELECT count(*), sum(id) FROM T_t TABLESAMPLE system_rows(100000)');
};
with tsm_system_time => sub {
	same('tsm_system_time', 'SELECT count(*), sum(id) FROM T_t TABLESAMPLE system_time(60000)');
};
with tablefunc => sub {
	same('crosstab', q{SELECT * FROM crosstab('SELECT id % 10, k % 3, count(*) FROM T_t GROUP BY 1, 2 ORDER BY 1, 2') AS c(r int, a bigint, b bigint, d bigint)});
	sql('CREATE TABLE T_tree (id int, p int); INSERT INTO T_tree SELECT g, nullif(g / 2, 0) FROM generate_series(1, 15) g; UPDATE T_tree SET p = 3 WHERE id = 4');
	same('connectby', q{SELECT * FROM connectby('T_tree', 'id', 'p', '1', 0, '/') AS c(id int, p int, level int, branch text)});
};
my $conn = sprintf("host '%s', port '%s', dbname 'postgres'", $node->host, $node->port);
with postgres_fdw => sub {
	$node->safe_psql('postgres', qq{CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($conn); CREATE USER MAPPING FOR current_user SERVER loop;
		CREATE SCHEMA far; IMPORT FOREIGN SCHEMA public LIMIT TO (z_t, h_t) FROM SERVER loop INTO far});
	sql('DELETE FROM T_t WHERE id > 9000');
	same('postgres_fdw scan', 'SELECT count(*), sum(v), sum(k) FROM far.T_t');
	same('postgres_fdw returning', q{UPDATE far.T_t SET v = v + 1 WHERE id BETWEEN 20 AND 25 RETURNING id, v; DELETE FROM far.T_t WHERE id = 21 RETURNING id; INSERT INTO far.T_t VALUES (9001, 1, 1, 'far') RETURNING *});
	same('postgres_fdw by ctid', q{BEGIN; UPDATE far.T_t SET v = v + 1 WHERE random() >= 0 AND id < 30 RETURNING id, v; UPDATE far.T_t SET k = k + 1, v = v + 1 WHERE random() >= 0 AND id < 30 RETURNING id, v, k; ROLLBACK});
	same('postgres_fdw joins', 'SELECT count(*), sum(f.v) FROM far.T_t f JOIN T_t USING (id); SELECT id FROM far.T_t WHERE id < 20 ORDER BY id LIMIT 3 FOR UPDATE');
	same('postgres_fdw ANALYZE', q{ANALYZE far.T_t; SELECT reltuples FROM pg_class WHERE oid = 'far.T_t'::regclass});
	same('postgres_fdw TRUNCATE', 'BEGIN; TRUNCATE far.T_t; SELECT count(*) FROM far.T_t; ROLLBACK; SELECT count(*) FROM T_t');
	same('postgres_fdw COPY', "BEGIN; COPY far.T_t FROM STDIN;\n9100\t1\t1\tcopied\n\\.\nSELECT * FROM far.T_t WHERE id = 9100; ROLLBACK");
};
with dblink => sub {
	my $c = sprintf('host=%s port=%s dbname=postgres', $node->host, $node->port);
	same('dblink', qq{SELECT dblink_connect('c', '$c'); SELECT dblink_exec('c', 'UPDATE T_t SET v = v + 1 WHERE id < 50');
		SELECT dblink_open('c', 'cur', 'SELECT id, v FROM T_t WHERE id < 15 ORDER BY id'); SELECT * FROM dblink_fetch('c', 'cur', 3) AS f(id int, v int);
		SELECT dblink_build_sql_update('T_t', '1', 1, '{5}', '{6}'), dblink_build_sql_insert('T_t', '1', 1, '{5}', '{6}'), dblink_get_pkey('T_t')});
};
with file_fdw => sub {
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/rows.csv';
	$node->safe_psql('postgres', qq{COPY (SELECT * FROM z_t ORDER BY id) TO '$file' (FORMAT csv); CREATE SERVER f FOREIGN DATA WRAPPER file_fdw;
		CREATE FOREIGN TABLE rows (id int, v int, k int, t text) SERVER f OPTIONS (filename '$file', format 'csv')});
	same('file_fdw', 'SELECT count(*) FROM rows; CREATE TABLE T_f AS TABLE rows; SELECT count(*), sum(v) FROM T_f; SELECT count(*), sum(r.v) FROM rows r JOIN T_t USING (id)');
};
with adminpack => sub { };
with old_snapshot => sub {
	is($node->safe_psql('postgres', 'SELECT count(*) >= 0 FROM pg_old_snapshot_time_mapping()'), 't', 'old_snapshot');
};
with $_ => sub { } for qw(sslinfo dict_int dict_xsyn unaccent fuzzystrmatch intagg uuid-ossp earthdistance xml2 bool_plperl jsonb_plperl hstore_plperl);
with pgcrypto => sub {
	sql(q{CREATE TABLE T_pc (id int, d bytea); INSERT INTO T_pc SELECT g, digest(g::text, 'sha256') FROM generate_series(1, 100) g; UPDATE T_pc SET d = digest(d, 'md5') WHERE id % 2 = 0});
	same('pgcrypto', q{SELECT md5(string_agg(encode(d, 'hex'), '' ORDER BY id)) FROM T_pc});
};
SKIP: {
	skip 'test_decoding is not installed', 1 unless $library{test_decoding};
	$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('s', 'test_decoding')});
	sql(q{UPDATE T_t SET v = v + 1 WHERE id = 30});
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT count(*) FROM pg_logical_slot_get_changes('s', NULL, NULL) WHERE data ~ 'h_t.*UPDATE'});
	is($out, 1, 'test_decoding goes on beside us');
	$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('s')});
}
check_tables($node, 'after all modules');

# --- modules that are preloaded
my @preload = grep { $library{$_} } qw(pg_stat_statements auto_explain pg_prewarm passwordcheck auth_delay);
note('not installed: ' . join ', ', grep { !$library{$_} } qw(pg_stat_statements auto_explain pg_prewarm));
$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . join(',', @preload, 'zheap_am') . "'");
$node->append_conf('postgresql.conf', qq{
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
auto_explain.log_buffers = on
auto_explain.log_triggers = on
pg_prewarm.autoprewarm_interval = 0
}) if @preload;
$node->restart;
same('after preloading', 'SELECT count(*), sum(v) FROM T_t');
if ($library{pg_stat_statements})
{
	with pg_stat_statements => sub {
		sql('UPDATE T_t SET v = v + 1 WHERE id < 500');
		same('pg_stat_statements', q{SELECT calls, rows, shared_blks_hit > 0 FROM pg_stat_statements WHERE query LIKE 'UPDATE T_t SET v%'});
		is($node->safe_psql('postgres', q{SELECT wal_records > 0 AND wal_bytes > 0 FROM pg_stat_statements WHERE query LIKE 'UPDATE z\_t SET v%'}), 't', 'WAL is counted');
	};
}
SKIP: {
	skip 'auto_explain is not installed', 1 unless $library{auto_explain};
	sql('UPDATE T_t SET v = v + 1 WHERE id = 40');
	like(slurp_file($node->logfile), qr/UPDATE z_t SET v = v \+ 1 WHERE id = 40\n.*Update on z_t.*Index Scan using z_t_pkey/s, 'auto_explain logs the plan');
}
SKIP: {
	skip 'pg_prewarm is not installed', 1 unless $library{pg_prewarm};
	is($node->safe_psql('postgres', 'SELECT autoprewarm_dump_now() > 0'), 't', 'autoprewarm dumps');
	$node->restart;
	ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('z_t')}), 'autoprewarm loads our tables')
	  if $installed{pg_buffercache};
	same('after autoprewarm', 'SELECT count(*), sum(v) FROM T_t');
}
check_tables($node, 'at the end');
undo_quiet($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();

sub check_pg_config_or_program
{
	my ($program) = @_;
	return -x $node->config_data('--bindir') . "/$program";
}
