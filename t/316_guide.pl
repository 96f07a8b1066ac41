# The guide: every SQL block of README.md and docs/*.md runs, in the order of the
# page and in a database of its own; links lead somewhere; the pictures are what
# their script draws; the queries for postgres_exporter and tools/zheap-top work;
# each setting, function and view has its line in the reference.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $top = "$FindBin::RealBin/..";
my $docs = "$top/docs";
my $node = zheap_node('guide');
$node->start;
my %installed = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT name FROM pg_available_extensions');

# what some blocks have to answer, by page and a word of theirs
my @answer = (
	[ 'README', qr/^101000$/m, 'the rollback' ],
	[ 'getting-started', qr/^(\d+)\|\(0,1\)\n\1\|\(0,1\)\n/m, 'size and place are the same after five updates' ],
	[ 'getting-started', qr/^1050000$/m, 'the rollback' ],
	[ 'migrating', qr/^zheap$/m, 'access method' ],
	[ 'migrating', qr/^0\|0$/m, 'the copy is complete' ],
	[ 'migrating', qr/^4999\|990$/m, 'and has what changed meanwhile' ],
	[ 'undo', qr/^2000\|\d+\|([1-9]|[1-3]\d)$/m, 'bytes per record' ],
	[ 'monitoring', qr/^t\|t\|1000\|1\|0$/m, 'the writer' ],
	[ 'scaling-out', qr/^1000\|1000$/m, 'partitions on another server' ],
	[ 'extensions', qr/^off\nzheap$/m, 'default access method' ],
	[ 'how-it-works', qr/^update\|1\|\d+$/m, 'an undo record' ],
	[ 'how-it-works', qr/^1\|11\n2\|20$/m, 'what was rolled back' ],
	[ 'operations', qr/^1\.0$/m, 'version' ],
);

# what a heading is called in links
sub anchors
{
	my ($text) = @_;
	return map { my $h = lc; $h =~ s/[^\w\s-]//g; $h =~ tr/ /-/; $h => 1 } $text =~ /^#+ (.*)$/mg;
}

my $blocks = 0;
for my $file ("$top/README.md", "$top/CONTRIBUTING.md", sort glob "$docs/*.md")
{
	my ($folder, $page) = $file =~ m{(.*)/([^/]+)\.md$};
	my $text = slurp_file($file);

	while ($text =~ /\]\(([^)#:\s]+)(?:#([^)]*))?\)/g)
	{
		my ($link, $anchor) = ($1, $2);
		ok(-e "$folder/$link", "$page: $link exists");
		ok({ anchors(slurp_file("$folder/$link")) }->{$anchor}, "$page: $link has $anchor") if defined $anchor;
	}
	my @sql = $text =~ /^```sql\n(.*?)^```$/msg;
	next if !@sql || ($text =~ /CREATE EXTENSION (?!zheap_am)(\w+)/ && !$installed{$1});
	# for two servers: t/309_move_server
	next if $page eq 'logical-replication';
	(my $db = lc "guide_$page") =~ tr/-/_/;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	my ($ret, $out, $err) = $node->psql($db, join("\n", @sql), on_error_stop => 1);
	is($ret, 0, "$page: " . @sql . ' blocks of SQL') or diag($err);
	$blocks += @sql;
	for (grep { $_->[0] eq $page } @answer)
	{
		like($out, $_->[1], "$page: $_->[2]");
	}
}
cmp_ok($blocks, '>', 30, 'blocks were found');

SKIP:
{
	skip 'no python3', 1 if system('python3 -c 1 >/dev/null 2>&1') != 0;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $script = slurp_file("$docs/pictures.py");
	put("$dir/pictures.py", $script);
	system_or_bail('python3', "$dir/pictures.py");
	for my $svg (map { m{([^/]+)$} } glob "$docs/*.svg")
	{
		is(slurp_file("$dir/$svg"), slurp_file("$docs/$svg"), "$svg is what the script draws");
	}
}

# --- the reference names what there is
my $reference = slurp_file("$docs/reference.md");
for my $name (split /\n/, $node->safe_psql('guide_monitoring', q{
SELECT name FROM pg_settings WHERE name ~ '^zheap\.' AND name !~ '^zheap\.debug_'
UNION ALL
SELECT p.proname || '(' FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zheap_am'
	JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
	WHERE p.prorettype <> 'table_am_handler'::regtype AND p.proname !~ '^pg_stat_get_'
UNION ALL
SELECT c.relname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zheap_am'
	JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass WHERE c.relkind = 'v'}))
{
	like($reference, qr/^\| `\Q$name\E/m, "the reference has $name");
}

# --- queries for Prometheus, as somebody who may only look
$node->safe_psql('guide_monitoring', 'CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher');
ok($node->poll_query_until('guide_monitoring', q{SELECT n_tup_upd = 1010 AND n_tup_hot_upd = 1000 FROM pg_stat_user_tables WHERE relname = 'job'}), 'in place counts as HOT');
my @query = slurp_file("$docs/postgres_exporter.yml") =~ /^  query: "(.*)"$/mg;
is(scalar @query, 6, 'queries for postgres_exporter');
for my $query (@query)
{
	my ($ret, $out, $err) = $node->psql('guide_monitoring', "SET SESSION AUTHORIZATION watcher; $query");
	is("$ret $err", '0 ', 'a query: ' . substr($query, 0, 40));
}

# --- the terminal's view
my $writer = session($node, 'guide_monitoring');
ask($writer, 'BEGIN; UPDATE job SET state = 2');
my $view = $ENV{ZHEAP_TOP} // "$top/tools/zheap-top";
my ($out, $err) = ('', '');
ok(IPC::Run::run([ 'bash', $view, '-n', '2', '-i', '0.1', '--', '-h', $node->host, '-p', $node->port, '-d', 'guide_monitoring' ], '>', \$out, '2>', \$err), 'zheap-top') or diag($err);
like($out, qr/undo\n.*holders\n.*backend.*writers\n.*20000.*rollbacks\n.*undo\n/s, 'shows holders and writers, twice');
finish_session($writer);
$node->stop;
done_testing();
