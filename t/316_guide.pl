# The guide: every SQL block of README.md and docs/*.md runs, in the order of the
# page and in a database of its own, and answers with the columns that the page
# shows; so does every block for a shell, or it is named below with the reason why
# not; links lead somewhere, and what a page calls a command is one; the pictures
# are what their script draws; the queries for postgres_exporter and tools/zheap-top
# work; the reference has each setting, function and view, and no other, with the
# default and the people that they have.
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

# what has to be there before a page's examples, which name it
my %before = ('indexed-updates' => 'CREATE ROLE worker; CREATE DATABASE shop');

# Blocks that are no SQL, by page and a pattern that they match as a whole: who
# plays them here (a name in %play), or why nobody does.
my @other = (
	[ 'README', qr/^make PG_CONFIG=\S+\nmake install PG_CONFIG=\S+ .*\n$/, 'tools/check builds and installs in this way what is tested here' ],
	[ 'getting-started', qr/^make PG_CONFIG=\S+\nsudo make install PG_CONFIG=\S+\n$/, 'the same' ],
	[ 'README', qr/^shared_preload_libraries = 'zheap_am'\n$/, 't/318_first_hour.pl starts a server with it' ],
	[ 'getting-started', qr/^shared_preload_libraries = 'zheap_am'\n$/, 'the same' ],
	[ 'getting-started', qr/^make demo .*\nmake check .*\n$/, 'minutes and hours; targets of the Makefile are looked for below' ],
	[ 'logical-replication', qr/^pg_ctl -D standby stop\npg_createsubscriber .*\npg_ctl -D standby start\n$/, 't/309_move_server.pl plays the page, with two servers' ],
	[ 'migrating', qr/^tools\/zheap-advice .*\n$/, 'play' ],
	[ 'migrating', qr/^ *table +\| +size .*\n/, 'play' ],
	[ 'monitoring', qr/^zheap-waldump .*\nzheap-waldump .*\n$/, 'play' ],
	[ 'monitoring', qr/^rmgr: zheap .*\n$/, 't/317_waldump.pl: records of all kinds beside pg_walinspect' ],
	[ 'monitoring', qr/^finished vacuuming /, 'play' ],
);

# The names of columns in the first line of an answer that a page shows; none if
# the block is something else.
sub columns
{
	my ($block) = @_;
	return $block =~ /^(.*)\n-[-+]+\n/ ? map { s/^\s+|\s+$//gr } split /\|/, $1 : ();
}

# Run a command of the shell in the folder of the tree; out, err, status.
sub shell
{
	my ($command, %env) = @_;
	my ($out, $err) = ('', '');
	local @ENV{ keys %env } = values %env;
	IPC::Run::run([ 'bash', '-c', "cd '$top' && $command" ], '<', \'', '>', \$out, '2>', \$err);
	return ($out, $err, $? >> 8);
}

# what a heading is called in links
sub anchors
{
	my ($text) = @_;
	return map { my $h = lc; $h =~ s/[^\w\s-]//g; $h =~ tr/ /-/; $h => 1 } $text =~ /^#+ (.*)$/mg;
}

my $blocks = 0;
my (%used, %said);
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
	# what a page names in its text
	my $makefile = slurp_file("$top/Makefile");
	my %named = map { $_ => 1 } $text =~ m{`(make [a-z][a-z-]*|(?:tools|t|docs|bench|undo|zheap)/[\w./-]+)};
	$named{"make $_"} = 1 for map { /^make ([a-z][a-z-]*)/mg } $text =~ /^```(?:sh)?\n(.*?)^```$/msg;
	for (sort keys %named)
	{
		# PGXS has "install" and "installcheck"; modes are listed
		my ($modes) = $makefile =~ /^CORE_MODES\b.*?= *(.*)/m;
		my $targets = join ' ', 'install installcheck', map { "core-suites-$_" } split / /, $modes;
		ok(/^make (.*)/ ? " $targets " =~ / \Q$1\E / || $makefile =~ /^(?:[\w-]+ )*\Q$1\E(?: [\w-]+)*:/m : (-e "$top/$_" || -e "$top/$_.pl"), "$page: there is $_");
	}
	my @block = $text =~ /^```(\w*)\n(.*?)^```$/msg;
	my (@sql, @shown);
	while (my ($kind, $block) = splice @block, 0, 2)
	{
		push(@sql, $block), next if $kind eq 'sql';
		next if $page eq 'CONTRIBUTING';	# commands for a day, and for people
		my ($how) = map { $_->[2] } grep { $_->[0] eq $page && $block =~ $_->[1] } @other;
		my @columns = columns($block);
		$used{"$page $how"} = 1 if defined $how;
		ok(defined $how || (@columns && @sql), "$page: somebody plays " . substr($block, 0, 30) =~ s/\n.*//sr);
		next if defined $how || !@columns;
		# psql is to say how the last statement's columns are called
		$sql[-1] = "\\pset tuples_only off\n$sql[-1]\n\\pset tuples_only on\n";
		push @shown, join '|', @columns;
	}
	next if !@sql || ($text =~ /CREATE EXTENSION (?!zheap_am)(\w+)/ && !$installed{$1});
	# for two servers: t/309_move_server
	next if $page eq 'logical-replication';
	(my $db = lc "guide_$page") =~ tr/-/_/;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql('postgres', $_) for split /; /, $before{$page} // '';
	my ($ret, $out, $err) = $node->psql($db, join("\n", @sql), on_error_stop => 1);
	is($ret, 0, "$page: " . @sql . ' blocks of SQL') or diag($err);
	$blocks += @sql;
	for (grep { $_->[0] eq $page } @answer)
	{
		like($out, $_->[1], "$page: $_->[2]");
	}
	like($out, qr/^\Q$_\E$/m, "$page: columns $_") for @shown;
	$said{$page} = $err;
}
cmp_ok($blocks, '>', 30, 'blocks were found');
ok($used{"$_->[0] $_->[2]"}, "$_->[0] still has the block: $_->[2]") for @other;
is($node->safe_psql('postgres', q{SELECT string_agg(coalesce(rolname, datname) || ': ' || array_to_string(setconfig, ' '), '; ' ORDER BY rolname)
	FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = setrole LEFT JOIN pg_database d ON d.oid = setdatabase
	WHERE rolname = 'worker' OR datname = 'shop'}),
	'worker: zheap.update_indexed_in_place=on; shop: zheap.update_indexed_in_place_tables=orders, public.items', 'indexed-updates: settings of a role and of a database');

# --- what VACUUM tells: all lines of the page, in this order
my $monitoring = slurp_file("$docs/monitoring.md");
my ($told) = $monitoring =~ /^```\n(finished vacuuming .*?)^\.\.\.$/ms;
(my $pattern = quotemeta($told =~ s/app\.public/guide_monitoring.public/r)) =~ s/\d+/\\d+/g;
like($said{monitoring}, qr/$pattern/, 'monitoring: what VACUUM tells');

# --- would it help my database?
my $migrating = slurp_file("$docs/migrating.md");
my ($ask) = $migrating =~ m{^(tools/zheap-advice -- -h db\.example\.org -U report shop)$}m;
my ($verdicts) = $migrating =~ /^( *table +\| .*\n-[-+]+\n)/m;
$node->safe_psql('postgres', 'CREATE ROLE report LOGIN; GRANT pg_monitor TO report');
my ($advice, $complaint, $code) = shell($ask =~ s/db\.example\.org/$node->host/er, PGPORT => $node->port);
is("$code$complaint", '0', 'migrating: zheap-advice');
is_deeply([ columns($1) ], [ columns($verdicts) ], 'migrating: its columns') if ok($advice =~ /^( *table +\| .*\n-[-+]+\n)/m, 'migrating: a table');

# --- what is in the WAL?
SKIP:
{
	my $dump = $node->installed_command('zheap-waldump');
	my @line = $monitoring =~ /^(zheap-waldump .*)$/mg;
	is(scalar @line, 2, 'monitoring: two calls of zheap-waldump');
	skip 'no zheap-waldump here', 4 if !-x $dump;
	$node->safe_psql('guide_monitoring', 'SELECT pg_switch_wal()');
	my $lsn = $node->safe_psql('guide_monitoring', 'SELECT pg_current_wal_lsn()');
	my $file = $node->safe_psql('guide_monitoring', "SELECT pg_walfile_name('$lsn'::pg_lsn + 1)");
	$node->safe_psql('guide_monitoring', 'UPDATE job SET state = 7 WHERE id = 100; UPDATE job SET state = 8 WHERE id BETWEEN 101 AND 110; SELECT pg_switch_wal()');
	my $wal = $node->data_dir . '/pg_wal';
	s{/var/lib/postgresql/15/main/pg_wal}{$wal}, s{0/3000028}{$lsn}, s{-p archive 0+10+3}{-p $wal $file}, s{^zheap-waldump}{$dump} for @line;
	my @three = split /\n/, (shell($line[0]))[0];
	is(scalar @three, 3, 'monitoring: three records');
	is(scalar(grep { /^rmgr: zheap +len/ } @three), 3, 'monitoring: of zheap');
	like((grep { /desc: UPDATE/ } @three)[0] // "@three", qr/ desc: UPDATE off \d+ xact slot \d+ tenure \d+ flags 0x\w+ undo \d+ prefix \d+ old \d+ new \d+, blkref #0: rel /, 'monitoring: an update is described as there');
	like((shell($line[1]))[0], qr{^zheap/UPDATE\S* +\d+ \(}m, 'monitoring: statistics of a file');
}

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

# --- the reference names what there is, and nothing else
my $reference = slurp_file("$docs/reference.md");
my %there;
for my $line (split /\n/, $node->safe_psql('guide_monitoring', q{
SELECT name, CASE WHEN boot_val = '-1' OR unit IS NULL THEN boot_val WHEN unit <> 'kB' THEN boot_val || unit WHEN boot_val::bigint < 1024 THEN boot_val || 'kB' ELSE boot_val::bigint / 1024 || 'MB' END, CASE context WHEN 'user' THEN 'any user may set it' WHEN 'superuser' THEN 'superusers may set it' ELSE context END
	FROM pg_settings WHERE name ~ '^zheap\.' AND name !~ '^zheap\.debug_'
UNION ALL
SELECT p.proname || '()', '', has_function_privilege('pg_monitor', p.oid, 'EXECUTE')::text || ' ' || has_function_privilege('public', p.oid, 'EXECUTE')
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zheap_am'
	JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
	WHERE p.prorettype <> 'table_am_handler'::regtype AND p.proname !~ '^pg_stat_get_'
UNION ALL
SELECT c.relname, '', has_table_privilege('pg_monitor', c.oid, 'SELECT')::text || ' ' || has_table_privilege('public', c.oid, 'SELECT')
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'zheap_am'
	JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass WHERE c.relkind = 'v'}))
{
	my ($name, $default, $who) = split /\|/, $line, -1;
	$there{$name} = 1;
	# a row begins: | `name` | default | ..., or | `name(arguments)` (view) | ...
	my $written = $name =~ s/\(\)$//r;
	my ($row) = $reference =~ /^(\| `\Q$written\E[`(].*)$/m;
	ok($row, "the reference has $name") or next;
	if ($name =~ /^zheap\./)
	{
		my (undef, undef, $value, $meaning) = map { s/^\s+|\s+$//gr } split /\|/, $row;
		is($value =~ s/ \(.*\)| //gr, $default =~ s/ //gr, "the reference has its default");
		is($meaning =~ /(any user may set it|superusers may set it)/ ? $1 : 'sighup', $who, 'and who may set it');
	}
	else
	{
		is($who, $name eq 'pg_zheap_reset_stats()' ? 'false false' : $reference =~ /^All of these .*\bbut for ([^.]*), which\s+everybody/ms && $1 =~ /`\Q$name\E`/ ? 'true true' : 'true false', "who may ask $name");
	}
}
ok($there{ s/\(.*/()/r }, "there is $_") for $reference =~ /^\| `([^`]+)`/mg;
my %column = map { $_ => 1 } split /\n/, $node->safe_psql('guide_monitoring', q{SELECT attname FROM pg_attribute WHERE attrelid = 'pg_stat_zheap_tables'::regclass AND attnum > 3});
my %explained = map { $_ => 1 } ($monitoring =~ /^\| Column \| Meaning.*?\n\n/ms ? $& : '') =~ /^\| `(\w+)`/mg;
is_deeply(\%explained, \%column, 'monitoring: each column of pg_stat_zheap_tables, explained');

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
