# Tables that scripts of extensions create, on a server whose default access
# method is zheap: heap unless the script or a setting says otherwise.  And
# whole databases and clusters of such a server, dumped and restored, among
# them an extension that comes before zheap_am in the dump.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('scripts', conf => "default_table_access_method = zheap\n");
my $folder = $node->config_data('--sharedir') . '/extension';
my $name = "aaa_script_$$";
my @files = ("$folder/$name.control", "$folder/$name--1.sql", "$folder/$name--1--2.sql", "$folder/$name--2--3.sql");
plan skip_all => "$folder is not writable" unless -w $folder;

END { unlink @files if @files; }
# one that uses the access method must require its extension; this one doesn't
push @files, "$folder/${name}_d.control", "$folder/${name}_d--1.sql";
put($files[4], "default_version = '1'\nschema = public\n");
put($files[5], q{CREATE TABLE x_plain (a int, t text); CREATE TABLE x_update (a int); SELECT pg_extension_config_dump('x_plain', '')});
put($files[0], "default_version = '1'\nschema = public\ntrusted = true\n");
put($files[1], q{
CREATE TABLE x_plain (a int, t text);
SELECT pg_extension_config_dump('x_plain', '');
CREATE TABLE x_using (a int) USING zheap;
CREATE TABLE x_as AS SELECT 1 AS a;
SELECT 1 AS a INTO x_into;
CREATE MATERIALIZED VIEW x_matview AS SELECT 1 AS a;
CREATE TABLE x_parted (a int) PARTITION BY LIST (a);
CREATE TABLE x_part PARTITION OF x_parted DEFAULT;
CREATE FUNCTION x_make(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('CREATE TABLE %I (a int)', name); END $$;
SELECT x_make('x_by_function');
DO $$ BEGIN CREATE TABLE x_by_do (a int); END $$;
SET LOCAL default_table_access_method = zheap;
CREATE TABLE x_set (a int);
});
put($files[2], 'CREATE TABLE x_update (a int);');
put($files[3], 'CREATE TABLE x_broken (a int); SELECT 1 / 0;');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

my $made = q{SELECT string_agg(substr(relname, 3) || ' ' || amname, ', ' ORDER BY relname) FROM pg_class c JOIN pg_am m ON relam = m.oid WHERE relname ~ '^x_' AND relkind IN ('r', 'm')};
my $as_heap = 'as heap, by_do heap, by_function heap, into heap, matview heap, part heap, plain heap, set zheap';
my $last = 'using zheap';

is($node->safe_psql('postgres', "CREATE EXTENSION $name; SHOW default_table_access_method"), "zheap", 'the setting comes back after CREATE EXTENSION');
is($node->safe_psql('postgres', $made), "$as_heap, $last", 'CREATE EXTENSION makes heap tables');
is($node->safe_psql('postgres', q{SELECT x_make('x_later'); SELECT amname FROM pg_class c JOIN pg_am m ON relam = m.oid WHERE relname = 'x_later'; DROP TABLE x_later}), "\nzheap", 'its functions make zheap tables afterwards');
is($node->safe_psql('postgres', qq{ALTER EXTENSION $name UPDATE TO '2'; SHOW default_table_access_method}), 'zheap', 'the setting comes back after ALTER EXTENSION UPDATE');
is($node->safe_psql('postgres', $made), "$as_heap, update heap, $last", 'ALTER EXTENSION UPDATE makes heap tables');
my ($rc, $out, $err) = $node->psql('postgres', qq{BEGIN; SAVEPOINT s; ALTER EXTENSION $name UPDATE TO '3'; ROLLBACK TO s; SHOW default_table_access_method; COMMIT; SHOW default_table_access_method}, on_error_stop => 0);
like($err, qr/division by zero/, 'a script fails');
is($out, "zheap\nzheap", 'the setting comes back after an error');
$node->safe_psql('postgres', "DROP EXTENSION $name");

is($node->safe_psql('postgres', "SET zheap.in_extension_scripts = on; CREATE EXTENSION $name; ALTER EXTENSION $name UPDATE TO '2'; $made"),
	"$as_heap, update heap, $last" =~ s/ heap/ zheap/gr, 'zheap.in_extension_scripts');
$node->safe_psql('postgres', "DROP EXTENSION $name");
$node->safe_psql('postgres', "CREATE ROLE trusted LOGIN; GRANT CREATE ON DATABASE postgres TO trusted; GRANT CREATE ON SCHEMA public TO trusted");
is($node->safe_psql('postgres', "CREATE EXTENSION $name; $made", extra_params => [ '-U', 'trusted' ]), "$as_heap, $last", 'a trusted extension of an ordinary user');
$node->safe_psql('postgres', "DROP EXTENSION $name; SET default_table_access_method = heap; CREATE EXTENSION $name; ALTER EXTENSION $name UPDATE TO '2'");
is($node->safe_psql('postgres', $made), "$as_heap, update heap, $last", 'heap is the default');
$node->safe_psql('postgres', "DROP EXTENSION $name");

# --- dumps
my $dump = $node->basedir . '/dump';
my $state = q{SELECT relname, amname FROM pg_class c JOIN pg_am m ON relam = m.oid WHERE relkind IN ('r', 'm') AND c.oid >= 16384 ORDER BY 1;
SELECT 't', * FROM t ORDER BY id; SELECT 'h', * FROM h; SELECT 'm', * FROM m; SELECT 'plain', * FROM x_plain; SELECT 'part', tableoid::regclass, * FROM p ORDER BY 2, 3;
SELECT extname FROM pg_extension ORDER BY 1; SHOW default_table_access_method};

sub fill
{
	my ($db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	# as it was made before this rule, one table of the extension is zheap
	$node->safe_psql($db, qq{
CREATE EXTENSION zheap_am; CREATE EXTENSION ${name}_d; INSERT INTO x_plain VALUES (1, repeat('x', 3000));
ALTER TABLE x_update SET ACCESS METHOD zheap;
CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, repeat('v', g * 40) FROM generate_series(1, 100) g; UPDATE t SET v = v || 'w' WHERE id % 3 = 0;
CREATE TABLE h (id int) USING heap; INSERT INTO h VALUES (1);
CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM t;
CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT USING heap; INSERT INTO p VALUES (1), (2);});
}

fill('app');
my $before = $node->safe_psql('app', $state);
like($before, qr/^h\|heap\n/m, 'a heap table in the dump');
like($before, qr/^t\|zheap\n/m, 'a zheap table in the dump');

# the extension's own tables are made anew by its script
sub restored
{
	my ($n, $db, $what) = @_;
	is($n->safe_psql($db, $state), $before =~ s/^x_update\|zheap$/x_update|heap/mr, $what);
}

for my $format ('custom', 'directory', 'plain')
{
	for my $setting ('', 'ALTER DATABASE app SET default_table_access_method = zheap')
	{
		$node->safe_psql('postgres', $setting) if $setting;
		my $what = "pg_dump -C, $format" . ($setting ? ', setting of the database' : '');
		$node->command_ok([ 'pg_dump', '-C', '-F', $format, '-f', "$dump-$format" . ($setting ? 'd' : ''), '-d', $node->connstr('app') ], $what);
		$node->safe_psql('postgres', 'DROP DATABASE app');
		if ($format eq 'plain')
		{
			$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$dump-$format" . ($setting ? 'd' : '') ], "restored: $what");
		}
		else
		{
			$node->command_ok([ 'pg_restore', '-C', '-e', ($format eq 'directory' ? ('-j', 2) : ()), '-d', $node->connstr('postgres'), "$dump-$format" . ($setting ? 'd' : '') ], "restored: $what");
		}
		restored($node, 'app', "same state: $what");
		$node->safe_psql('postgres', 'ALTER DATABASE app RESET ALL') if $setting;
		# x_update was restored as heap
		$before = $node->safe_psql('app', $state);
	}
}

# the whole cluster, with the settings of databases and roles
$node->safe_psql('postgres', q{ALTER ROLE trusted SET default_table_access_method = zheap;
ALTER DATABASE app SET default_table_access_method = zheap;
ALTER ROLE trusted IN DATABASE app SET default_table_access_method = heap});
$node->command_ok([ 'pg_dumpall', '-f', "$dump-all", '-d', $node->connstr('postgres') ], 'pg_dumpall');
my $copy = zheap_node('copy', conf => "default_table_access_method = zheap\n");
$copy->start;
my ($stdout, $stderr) = ('', '');
IPC::Run::run([ $copy->installed_command('psql'), '-X', '-q', '-d', $copy->connstr('postgres'), '-f', "$dump-all" ], '>', \$stdout, '2>', \$stderr);
is(join("\n", grep { /ERROR|FATAL/ && !/role "\S+" already exists/ } split /\n/, $stderr), '', 'pg_dumpall is restored without an error');
restored($copy, 'app', 'same state: pg_dumpall');
my $settings = 'SELECT setrole::regrole::text, setconfig FROM pg_db_role_setting ORDER BY 1, 2';
is($copy->safe_psql('app', $settings), $node->safe_psql('app', $settings), 'settings are restored');

for ($node, $copy)
{
	check_tables($_, 'at the end', 'app');
	$_->stop;
	log_is_clean($_);
}
done_testing();
