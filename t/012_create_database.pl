# CREATE DATABASE copies pages but not undo: a source with aborted changes
# that nobody has rolled back yet is drained first, or refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('createdb');
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE src');
$node->safe_psql('src', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (a int) USING zheap;
INSERT INTO x VALUES (1);});

sub leave_rollback
{
	$node->safe_psql('postgres', q{
ALTER SYSTEM SET zheap.rollback_paused = on;});
	$node->safe_psql('postgres', q{SELECT pg_reload_conf(); SELECT pg_sleep(1)});
	$node->safe_psql('src', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; INSERT INTO x SELECT generate_series(1, 500); ROLLBACK;});
}

for my $strategy ('wal_log', 'file_copy')
{
	leave_rollback();
	my ($rc, $out, $err) = $node->psql('postgres',
		"CREATE DATABASE copy_$strategy TEMPLATE src STRATEGY $strategy");
	isnt($rc, 0, "$strategy: refused while the rollback is paused");
	like($err, qr/aborted transactions that are not rolled back yet/,
		"$strategy: and told why");

	$node->safe_psql('postgres', q{ALTER SYSTEM RESET zheap.rollback_paused});
	$node->safe_psql('postgres', q{SELECT pg_reload_conf()});
	$node->safe_psql('postgres',
		"CREATE DATABASE copy_$strategy TEMPLATE src STRATEGY $strategy");
	# U and H pass the aborted transaction
	$node->safe_psql('src', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2')
	  for 1 .. 3;
	is($node->safe_psql("copy_$strategy", 'SELECT count(*) FROM x'), '1',
		"$strategy: the copy has the committed row only");
	is($node->safe_psql("copy_$strategy", q{SELECT count(*) FROM zheap_check('x')}),
		'0', "$strategy: and is in order");
}
$node->stop;
done_testing();
