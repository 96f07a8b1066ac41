# All files of sql/ run on a primary while a standby replays them with every
# page compared (wal_consistency_checking); then both are dumped, and the dumps
# must be the same.  WAL_LEVEL=logical: with what decoding needs in WAL.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => $ENV{WAL_LEVEL} // 1, conf => q{
wal_consistency_checking = 'zheap'
max_wal_size = 1GB
shared_buffers = 32MB
autovacuum_naptime = 1s
});
$node->start;
my $standby = zheap_standby($node, slot => 'replay', conf => "max_standby_streaming_delay = 0");

my @files = sort glob "$FindBin::RealBin/../sql/*.sql";
cmp_ok(scalar(@files), '>', 10, 'there are files to run');
$node->safe_psql('postgres', 'CREATE DATABASE runs');
$node->safe_psql($_, 'CREATE EXTENSION zheap_am; CREATE EXTENSION amcheck') for qw(postgres runs);
chdir "$FindBin::RealBin/..";
$ENV{PG_ABS_SRCDIR} = "$FindBin::RealBin/..";	# as pg_regress sets it
for my $file (@files)
{
	my ($out, $err) = ('', '');
	(my $name = $file) =~ s{.*/|\.sql$}{}g;
	# a schema each: they use the same names
	my $schema = "s_$name";
	$node->safe_psql('runs', "CREATE SCHEMA $schema");
	my $ok = IPC::Run::run([ 'psql', '-Xqa', '-d', $node->connstr('runs'), '-c', "SET search_path = $schema, public", '-f', $file ],
		'<', \'', '>', \$out, '2>&1');
	unlike($out, qr/server closed|connection to server was lost/, "$name ran to its end");
}
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('runs', 'SELECT pg_is_in_recovery()'), 't', 'the standby replayed all of it');

# unlogged tables have no rows on a standby
my $dump = $node->basedir . '/dump';

# without the random word that newer versions put into each dump, and without
# sequences, which WAL takes some steps ahead
sub text_of
{
	my $text = slurp_file("$dump.$_[0]");
	$text =~ s/^(?:\\(?:un)?restrict |SELECT pg_catalog\.setval\().*\n//mg;
	return $text;
}
for my $n ($node, $standby)
{
	command_ok([ 'pg_dump', '--no-sync', '--no-unlogged-table-data', '-d', $n->connstr('runs'), '-f', "$dump." . $n->name ], 'dump of ' . $n->name);
}
cmp_ok(-s "$dump.primary", '>', 20_000, 'which is not empty');
ok(text_of('primary') eq text_of('standby'), 'the dumps are the same')
  or note(`diff $dump.primary $dump.standby | head -40`);
my $tables = q{SELECT count(*) FROM pg_class t JOIN pg_am a ON a.oid = t.relam WHERE a.amname = 'zheap'};
cmp_ok($node->safe_psql('runs', $tables), '>', 10, 'tables are left');
check_tables($node, 'on the primary', 'runs');

# promoted, it serves the same
$node->stop;
$standby->promote;
$standby->safe_psql('runs', 'VACUUM');
check_tables($standby, 'on the promoted standby', 'runs');
undo_quiet($standby, 'on the promoted standby') if $standby->safe_psql('postgres', q{SELECT count(*) FROM pg_prepared_xacts}) eq '0';
command_ok([ 'pg_dump', '--no-sync', '--no-unlogged-table-data', '-d', $standby->connstr('runs'), '-f', "$dump.promoted" ], 'dump of the promoted standby');
ok(text_of('primary') eq text_of('promoted'), 'is the same, too');
$standby->stop;
log_is_clean($_, qr/^[^|]*ERROR/) for $node, $standby;
done_testing();
