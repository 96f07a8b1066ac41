# An old snapshot's scan gives a page up once it has copied it.  What then
# happens to the page, the scan sees as it was: rows that are restored in the
# copy, and those that are looked for on the page once more, since the copy
# can't say all (some rows are changed more often than changes are taken back for
# them).  Answers beside a heap table of the same history.  Needs a server with
# assertions (undo_debug.h); these walk each row besides.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('scanned', conf => q{
autovacuum = off
fsync = off
max_prepared_transactions = 2
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# to both tables
sub both
{
	my ($sql) = @_;

	$node->safe_psql('postgres', join '; ',
		map { my $t = $_; (my $s = $sql) =~ s/\bT\b/$t/g; $s } qw(z h));
}

my $look = q{SELECT count(*) || ' ' || sum(hashtext(T::text)::bigint) FROM T};
(my $look_z = $look) =~ s/\bT\b/z/g;
(my $look_h = $look) =~ s/\bT\b/h/g;

# how many changes of a row are taken back: none, so that all are walked; so many
# that some are; as many as usual
foreach my $steps (0, 3, 128)
{
	$node->append_conf('postgresql.conf', "zheap.debug_set = 'old-page-steps=$steps'");
	$node->restart;
	$node->safe_psql('postgres', q{DROP TABLE IF EXISTS z, h;
CREATE TABLE z (a int PRIMARY KEY, b int, c text) USING zheap;
CREATE TABLE h (a int PRIMARY KEY, b int, c text) USING heap});
	both(q{INSERT INTO T SELECT g, 0, repeat('x', g % 7) FROM generate_series(1, 60) g});
	both('DELETE FROM T WHERE a > 55');

	my $old = session($node);
	my $pid = ask($old, 'SELECT pg_backend_pid()');
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $first = ask($old, $look_h);
	is(ask($old, $look_z), $first, "as heap, $steps steps");

	# each row in a transaction of its own, the first ones often
	both("UPDATE T SET b = b + 1, c = c || 'y' WHERE a = $_") foreach 1 .. 40;
	both('UPDATE T SET b = b + 1 WHERE a <= 5') foreach 1 .. 6;
	is(ask($old, $look_z), $first, 'after changes');

	order_point($node, 'page-copied', 'wait', $pid);
	send_sql($old, $look_z);
	ok(wait_at_point($node, 'page-copied'), 'the page is copied');

	# who is slow with a page that is not locked keeps nobody waiting
	both(q{UPDATE T SET b = -1, c = repeat('long', 20) WHERE a % 3 = 0});
	both('DELETE FROM T WHERE a % 4 = 1');
	both("INSERT INTO T SELECT g, 9, 'new' FROM generate_series(101, 160) g");
	both('UPDATE T SET a = a + 1000 WHERE a % 10 = 2');
	both('BEGIN; UPDATE T SET b = -2; DELETE FROM T WHERE a < 30; ROLLBACK');
	$node->safe_psql('postgres', 'VACUUM z');
	both("BEGIN; UPDATE T SET b = b + 100 WHERE a > 50; PREPARE TRANSACTION 'T'");

	leave_point($node, 'page-copied');
	is(ask($old, 'SELECT 1'), "$first\n1", 'the scan saw what it saw before');
	is(ask($old, $look_z), $first, 'so does the next one');
	is(ask($old, $look_h), $first, "and heap's");
	ask($old, 'COMMIT');
	is(ask($old, $look_z), ask($old, $look_h), 'a new snapshot');
	both("ROLLBACK PREPARED 'T'");
	is(ask($old, $look_z), ask($old, $look_h), 'after the rollback');
	finish_session($old);
	ok(check_tables($node, "$steps steps"), 'pages are sound');
}
$node->stop;
log_is_clean($node);
done_testing();
