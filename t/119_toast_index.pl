# The index of a toast table: values that are replaced again and again leave
# entries behind, which go before a page of the index is split, unless a
# snapshot needs them; then once it has ended.  Pages are counted, for a few
# documents that are updated often; where many are updated in turn, VACUUM frees
# the pages that newer identities don't come to any more.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', conf => "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE d (id int PRIMARY KEY, n int, big text) USING zheap;
ALTER TABLE d ALTER big SET STORAGE EXTERNAL;
INSERT INTO d SELECT g, 0, repeat(md5(g::text), 250) FROM generate_series(1, 300) g;
CREATE PROCEDURE churn(docs int, rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR r IN 1..rounds LOOP
		FOR i IN 1..docs LOOP
			UPDATE d SET big = repeat(md5(r::text || i), 250), n = n + 1 WHERE id = i;
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
});

sub churn
{
	my ($docs, $rounds) = @_;
	$node->safe_psql('postgres', "CALL churn($docs, $rounds)");
	return $node->safe_psql('postgres', q{
SELECT pg_indexes_size(reltoastrelid) / 8192 FROM pg_class WHERE relname = 'd'});
}

# 2,000 updates whose entries find room in those that go; without that they take
# 20 pages and more.  Who else takes a snapshot may be in the way for a time.
sub is_flat
{
	my ($what) = @_;
	my @pages = churn(10, 1);
	for (1 .. 20)
	{
		push @pages, churn(10, 200);
		return pass("$what: @pages pages") if $pages[-1] <= $pages[-2] + 6;
	}
	return fail("$what: @pages pages");
}

is_flat('no old snapshot');

my $look = 'SELECT sum(n), md5(string_agg(big, \',\' ORDER BY id)) FROM d';
my $old = session($node);
my $want = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
churn(10, 100);
is(ask($old, $look), $want, 'an old snapshot finds its values');
ask($old, 'COMMIT');
finish_session($old);
undo_quiet($node, 'the snapshot has ended');
is_flat('after an old snapshot');

# a round takes 5 pages; those of the round before last are used again
my @pages = churn(300, 1);
for (1 .. 60)
{
	$node->safe_psql('postgres', 'VACUUM d');
	push @pages, churn(300, 1);
	last if @pages > 5 && $pages[-1] == $pages[-4];
}
is($pages[-1], $pages[-4], "all in turn, with VACUUM: @pages pages");
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT big), min(length(big)), max(length(big)) FROM d'),
	'300|300|8000|8000', 'the values are there');
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
