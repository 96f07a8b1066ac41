# The spill chain of a page names a record that is gone, whose place on its undo page
# belongs to a younger record of the same chain: that is no ring.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('spillgone', conf => q{
autovacuum = off
fsync = off
zheap.discard_naptime = 10ms
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE pad (id int PRIMARY KEY, t text) USING zheap;
ALTER TABLE pad ALTER t SET STORAGE PLAIN;
INSERT INTO pad VALUES (1, repeat('0', 5000));
});
my $w = session($node);

# The newest undo record of a table's page, in an xact slot or spilled (0).
sub newest
{
	my ($table, $slots) = @_;
	my ($urp, $writer) = split /\|/, ask($w, qq{
SELECT r.urp, writer FROM unnest(ARRAY[$slots]) slot, zheap_undo_records('$table', 0, slot) r
ORDER BY writer DESC LIMIT 1});
	return { urp => $urp, page => $urp =~ s{/\d+$}{}r, writer => $writer };
}

# A record of which an undo page holds one.
my $pads = 0;

sub pad
{
	ask($w, sprintf q{UPDATE pad SET t = repeat('%s', 5000)}, chr(97 + $pads++ % 26));
	return newest('pad', '1, 2');
}

# Another one: a row of 5000 bytes goes there, since the next one needs its place.
sub spill
{
	my ($id) = @_;
	ask($w, "DELETE FROM t WHERE id = $id");
	ask($w, "UPDATE t SET s = repeat('y', 5000) WHERE id = $id + 1");
	return newest('t', '0');
}

sub snapshot
{
	my $s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pad');
	return $s;
}

ask($w, q{
CREATE TABLE t (id int PRIMARY KEY, s text) USING zheap;
ALTER TABLE t ALTER s SET STORAGE PLAIN;
INSERT INTO t SELECT g, CASE WHEN g = 1 THEN repeat('x', 5000) ELSE 'x' END FROM generate_series(1, 9) g;
});
my $old = snapshot();
my $before = pad();
my $gone = spill(1);
pad();
my $young = snapshot();
my $rows = 'SELECT sum(id), sum(length(s)) FROM t';
my $seen = ask($young, $rows);
my $kept = spill(2);
isnt($kept->{page}, $gone->{page}, 'two spilled rows lie on two undo pages');
ask($old, 'COMMIT');
finish_session($old);
ok($node->poll_query_until('postgres',
		"SELECT h::text::int8 BETWEEN $gone->{writer} + 1 AND $kept->{writer} FROM zheap_horizons()"),
	'one is discarded, the other one is not');
for (1 .. 20)
{
	last if pad()->{page} eq $before->{page};
}
my $again = spill(3);
is($again->{urp}, $gone->{urp}, 'a third one lies where the first one was');
cmp_ok($again->{writer}, '>', $gone->{writer}, '... and is another one');
spill(4);
is(ask($w, q{SELECT string_agg(coalesce(prev_writer::text, 'none'), ' ') FROM zheap_undo_records('t', 0, 0)}),
	"$again->{writer} $kept->{writer} $gone->{writer}", 'the chain goes through it to where it was');

is(ask($w, 'VACUUM t'), '', 'VACUUM');
check_tables($node, 'with the chain');
is(ask($young, "$rows WHERE id > 0"), $seen, 'the younger snapshot reads the rows');
is(ask($young, "SET enable_seqscan = off; SET enable_bitmapscan = off; $rows WHERE id > 0"), $seen,
	'... by the index');
ask($young, 'COMMIT');
finish_session($young);
finish_session($w);
undo_quiet($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
