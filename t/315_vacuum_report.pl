# What VACUUM (VERBOSE) and autovacuum's line in the log say of transaction
# slots, spilled rows and pages rolled back, against what is on the pages.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('vacuumreport', conf => q{
autovacuum = off
autovacuum_naptime = 1s
zheap.rollback_foreground_size = 0
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');
sub one { my ($query) = @_; return $node->safe_psql('postgres', $query) }

# how many on all pages of a table
sub on_pages
{
	my ($table, $function, $where) = @_;
	return one(qq{SELECT count(*) FROM generate_series(0, pg_relation_size('$table') / 8192 - 1) b, $function('$table', b) i WHERE $where});
}
sub spilled { my ($table) = @_; return on_pages($table, 'zheap_page_items', q{state = 'spilled'}) }
sub slots { my ($table) = @_; return on_pages($table, 'zheap_page_slots', q{fxid IS NOT NULL}) }
sub aborted_pages
{
	my ($table) = @_;
	return one(qq{SELECT count(*) FROM generate_series(0, pg_relation_size('$table') / 8192 - 1) b
		WHERE EXISTS (SELECT FROM zheap_page_slots('$table', b) WHERE status = 'aborted')});
}

sub says
{
	my ($removed, $left, $freed, $pages) = @_;
	return "spilled rows: $removed removed, $left left\n\\s*transaction slots: $freed freed, pages rolled back: $pages\n\\s*removable cutoff";
}
sub vacuum
{
	my ($table, $what, @numbers) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "VACUUM (VERBOSE) $table");
	return like($err, qr/finished vacuuming "postgres\.public\.$table": .*\n${\says(@numbers)}/s, $what);
}

# With indexes the pointers of rows are freed in a second pass, without in one.
for my $index ('', 'CREATE UNIQUE INDEX ON z (id);')
{
	my $what = $index ? 'with an index' : 'without an index';

	one(qq{
SET client_min_messages = warning;
DROP TABLE IF EXISTS z;
CREATE TABLE z (id int, t text) USING zheap;
INSERT INTO z SELECT g, repeat('a', 80) FROM generate_series(1, 1000) g;
$index});
	undo_quiet($node, "a new table $what");
	my $used = slots('z');
	cmp_ok($used, '>', 0, "transaction slots of the writer $what");
	vacuum('z', "they are freed $what", 0, 0, $used, 0);
	is(slots('z'), '0', "none is in use $what");

	# rows that a snapshot still needs give their room to others
	my $keeper = session($node);
	ask($keeper, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z');
	one('DELETE FROM z WHERE id <= 500');
	one(q{INSERT INTO z SELECT g, repeat('b', 80) FROM generate_series(2001, 2400) g});
	my $spilled = spilled('z');
	cmp_ok($spilled, '>', 100, "rows were spilled $what");
	$used = slots('z');
	vacuum('z', "spilled rows are left $what", 0, $spilled, 0, 0);
	is(slots('z') . '|' . spilled('z'), "$used|$spilled", "nothing was freed beside the snapshot $what");
	is(ask($keeper, 'SELECT count(*), sum(id) FROM z'), '1000|500500', "the snapshot has its rows $what");
	finish_session($keeper);

	# nobody needs them any more
	undo_quiet($node, "without the snapshot $what");
	vacuum('z', "spilled rows are removed $what", $spilled, 0, $used, 0);
	is(slots('z') . '|' . spilled('z'), '0|0', "none is left $what");

	# what aborted, taken back by the vacuum itself
	set_conf($node, 'zheap.rollback_paused' => 'on');
	one('BEGIN; DELETE FROM z WHERE id % 2 = 0; ROLLBACK');
	my $pages = aborted_pages('z');
	cmp_ok($pages, '>', 3, "pages with aborted changes $what");
	vacuum('z', "pages are rolled back $what", 0, 0, 0, $pages);
	is(aborted_pages('z'), '0', "no page has aborted changes $what");
	vacuum('z', "nothing is left to be done $what", 0, 0, 0, 0);
	set_conf($node, 'zheap.rollback_paused' => 'off');
}

# --- autovacuum says it, too
set_conf($node, 'zheap.rollback_paused' => 'on');
one(q{
CREATE TABLE auto (id int, t text) USING zheap WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 0,
	autovacuum_vacuum_scale_factor = 0, log_autovacuum_min_duration = 0);
INSERT INTO auto SELECT g, repeat('a', 80) FROM generate_series(1, 1000) g;
DELETE FROM auto WHERE id > 900;
BEGIN; DELETE FROM auto WHERE id % 2 = 0; ROLLBACK});
my $pages = aborted_pages('auto');
one('ALTER TABLE auto SET (autovacuum_enabled = on)');
set_conf($node, autovacuum => 'on');
my $line = qr/LOG:  finished vacuuming "postgres\.public\.auto": .*?\n\s*${\says('\d+', 0, '[1-9]\d*', $pages)}/s;
my $found = 0;
for (1 .. 1800)
{
	last if $found = slurp_file($node->logfile) =~ $line;
	select(undef, undef, undef, 0.1);
}
ok($found, "autovacuum's line in the log");

check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
