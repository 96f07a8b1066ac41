# The first hour of somebody who has README.md and nothing else: a server as
# initdb makes it, with the one line that README asks for, and README's block
# "Use" as it is pasted into psql; then tools/zheap-advice about a database of heap
# tables, as somebody who may only look, and the commands that it gives.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $top = "$FindBin::RealBin/..";
my $readme = slurp_file("$top/README.md");
my ($install) = $readme =~ /^## Install\n(.*?)^## /ms;
my ($line) = $install =~ /^```\n(shared_preload_libraries = .*)\n```$/m;
my ($use) = $readme =~ /^## Use\n.*?^```sql\n(.*?)^```$/ms;
ok(defined $line && defined $use, 'README says what to put where, and what to type');

my $node = PostgreSQL::Test::Cluster->new('newcomer');
$node->init;
$node->append_conf('postgresql.conf', "$line\nlog_statement = none");
$node->start;
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGDATABASE} = 'postgres';

# Run a command of the shell; out, err, status.
sub shell
{
	my ($command, $in) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'bash', '-c', $command ], '<', \($in // ''), '>', \$out, '2>', \$err);
	return ($out, $err, $? >> 8);
}

my ($out, $err, $status) = shell('psql', $use);
is("$status$err", '0', 'README: no error, no warning');
like($out, qr/^ 101000$/m, 'README: the sum that is in its comment');
like($out, qr/^ *kind +\| +pid/m, 'README: who holds undo');
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'account'}), 'zheap', 'README: a table of zheap');
($out) = shell('psql -At', "SET default_table_access_method = zheap;\nCREATE TABLE later (a int);\nSELECT pg_relation_size('account'), amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'later';\n");
like($out, qr/^\d+\|zheap$/m, 'README: and all new tables');

# --- would it help my database?
$node->safe_psql('postgres', 'CREATE DATABASE "my shop"');
$node->safe_psql('my shop', q{
CREATE TABLE account (a int PRIMARY KEY, b int) WITH (autovacuum_enabled = off);
INSERT INTO account SELECT g, 0 FROM generate_series(1, 40000) g;
CREATE SCHEMA "A b";
CREATE TABLE "A b".hot (a int PRIMARY KEY, b int) WITH (fillfactor = 40, autovacuum_enabled = off);
INSERT INTO "A b".hot SELECT g, 0 FROM generate_series(1, 40000) g;
CREATE TABLE moving (a int PRIMARY KEY, b int) WITH (autovacuum_enabled = off);
CREATE INDEX ON moving (b);
INSERT INTO moving SELECT g, 0 FROM generate_series(1, 40000) g;
CREATE TABLE log WITH (autovacuum_enabled = off) AS SELECT g, repeat('l', 50) FROM generate_series(1, 40000) g;
CREATE TABLE queue (a int) WITH (autovacuum_enabled = off);
INSERT INTO queue SELECT generate_series(1, 60000);
CREATE TABLE small (a int);
CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher;
});
$node->safe_psql('my shop', $_) for ('UPDATE account SET b = 1', 'UPDATE account SET b = 2', 'UPDATE "A b".hot SET b = 1 WHERE a % 10 = 0', 'UPDATE moving SET b = b + 1 WHERE a <= 2000', 'DELETE FROM queue WHERE a % 2 = 0');
ok($node->poll_query_until('my shop', q{SELECT sum(n_tup_upd) = 86000 AND sum(n_tup_del) = 30000 FROM pg_stat_user_tables}), 'counted');

local $ENV{PGOPTIONS} = '-c default_transaction_read_only=on';
my $advice = "$top/tools/zheap-advice";
# the lines of a table: its name -> fields
sub rows_of { return map { my @f = map { s/^\s+|\s+$//gr } split /\|/; $f[0] => [@f] } grep { /\|/ } split /\n/, $_[0] }
for my $bloat ('estimated', 'measured')
{
	my $is = $bloat eq 'measured';
	if ($is)
	{
		last if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pgstattuple'}) eq '0';
		delete local $ENV{PGOPTIONS};
		$node->safe_psql('my shop', 'CREATE SCHEMA ext; CREATE EXTENSION pgstattuple SCHEMA ext; GRANT USAGE ON SCHEMA ext TO watcher');
	}
	($out, $err, $status) = shell("bash '$advice' -- -U watcher 'my shop'");
	is("$status$err", '0', "advice, bloat $bloat: no error");
	my %row = rows_of($out);
	is($row{'public.account'}[9], 'yes', "$bloat: updated and bloated: yes") or diag($out);
	is($row{'public.account'}[4], 80000, "$bloat: with its updates");
	cmp_ok($row{'public.account'}[8] =~ s/ %//r, '>', 50, "$bloat: most of it is bloat");
	is("$row{'\"A b\".hot'}[9] $row{'\"A b\".hot'}[5]", $is ? 'yes 100 %' : 'yes 100 %', "$bloat: HOT updates: yes");
	is($row{'public.moving'}[9], '?', "$bloat: updates of an indexed column: look");
	is($row{'public.moving'}[6], 4000, "$bloat: with the entries that they wrote");
	is($row{'public.log'}[9], 'no', "$bloat: written once: no");
	is($row{'public.queue'}[9], '?', "$bloat: comes and goes: look");
	ok(!$row{'public.small'}, "$bloat: small tables are left out");
	like($out, $is ? qr/pgstattuple_approx\(\)/ : qr/estimated from dead rows/, "$bloat: says where that is from");
	like($out, qr/needs? zheap_am in shared_preload/, "$bloat: says what has to be there before");
}
# the busiest comes first
my @order = $out =~ /^ (\S+|"A b".hot) +\| [\d.]+ [kM]B/mg;
is($order[0], 'public.account', 'the most updates come first');
like((shell("bash '$advice' -a 'my shop'"))[0], qr/^ public\.small /m, '-a: small ones, too');

# the commands do what they say
my @command = $out =~ /^ (SET lock_timeout.*?;) +\|/mg;
is(scalar @command, 2, 'two commands');
delete $ENV{PGOPTIONS};
$node->safe_psql('my shop', join "\n", 'CREATE EXTENSION zheap_am;', @command);
is($node->safe_psql('my shop', q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'zheap'}), 'account hot', 'both are tables of zheap now');
($out, $err, $status) = shell("bash '$advice' 'my shop'");
unlike($out, qr/^ (public\.account|"A b".hot) /m, 'which advice is silent about');
unlike($out, qr/shared_preload/, 'nor does it ask for the extension');
like((shell("bash '$advice'"))[1], qr/^zheap-advice /, 'usage without a database');
isnt((shell("bash '$advice' nonsense"))[2], 0, 'a database that is not there');
$node->stop;
log_is_clean($node);
done_testing();
