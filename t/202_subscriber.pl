# Tables of a logical subscription: what is applied to a zheap table is what
# is applied to its heap twin, found by key, by index and by the whole row,
# with triggers, toasted values, and beside local transactions that hold the
# rows.  (A change between finding a row and locking it must not be lost.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $pub = PostgreSQL::Test::Cluster->new('publisher');
$pub->init(allows_streaming => 'logical');
$pub->start;
my $sub = zheap_node('subscriber');
$sub->start;
$sub->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# twins z and h: k by primary key, f by the whole row, i by an index
my %table = (
	k => '(id int PRIMARY KEY, a int, b int, t text)',
	f => '(id int, a int, b int, t text)',
	i => '(id int NOT NULL, a int, b int, t text)');
my @twins = map { my $t = $_; ("z_$t", "h_$t") } sort keys %table;
for my $name (@twins)
{
	my $t = substr $name, 2;
	my $am = $name =~ /^z/ ? 'zheap' : 'heap';
	my $identity = $t eq 'f' ? "ALTER TABLE $name REPLICA IDENTITY FULL;"
	  : $t eq 'i' ? "CREATE UNIQUE INDEX ${name}_id ON $name (id); ALTER TABLE $name REPLICA IDENTITY USING INDEX ${name}_id;" : '';
	$pub->safe_psql('postgres', "CREATE TABLE $name $table{$t}; $identity
		INSERT INTO $name SELECT g, 0, 0, 't' FROM generate_series(1, 50) g");
	$sub->safe_psql('postgres', "CREATE TABLE $name $table{$t} USING $am; $identity CREATE INDEX ON $name (b)");
}
$pub->safe_psql('postgres', 'CREATE PUBLICATION p FOR ALL TABLES');
$sub->safe_psql('postgres', q{CREATE SUBSCRIPTION s CONNECTION '} . ($pub->connstr . ' dbname=postgres') . q{' PUBLICATION p});
$sub->wait_for_subscription_sync($pub, 's');

sub on_pub
{
	my ($sql) = @_;
	for my $name (@twins)
	{
		(my $s = $sql) =~ s/\bT\b/$name/g;
		$pub->safe_psql('postgres', $s);
	}
}

sub same
{
	my ($what) = @_;
	for my $t (sort keys %table)
	{
		my ($z, $h) = map { $sub->safe_psql('postgres', "SELECT * FROM ${_}_$t ORDER BY id, a, b") } qw(z h);
		isnt($z, '', "$t has rows: $what");
		is($z, $h, "$t: $what");
	}
}

sub applied
{
	my ($what) = @_;
	$pub->wait_for_catchup('s');
	same($what);
}

applied('copied at the start');
on_pub(q{INSERT INTO T VALUES (100, 1, 1, 'new'); UPDATE T SET a = a + 1 WHERE id <= 10; UPDATE T SET b = b + 1 WHERE id BETWEEN 6 AND 15; DELETE FROM T WHERE id BETWEEN 14 AND 20});
applied('insert, update, delete');
on_pub(q{BEGIN; UPDATE T SET a = a + 1, t = repeat('long', 30) WHERE id = 1; UPDATE T SET a = a + 1 WHERE id = 1; UPDATE T SET id = 1000 WHERE id = 1; UPDATE T SET b = 5 WHERE id = 1000;
	SAVEPOINT s; DELETE FROM T WHERE id = 2; ROLLBACK TO s; UPDATE T SET b = 7 WHERE id = 2; INSERT INTO T VALUES (101, 1, 1, 'x'); UPDATE T SET a = 2 WHERE id = 101; DELETE FROM T WHERE id = 101; COMMIT});
applied('a row several times');
on_pub(q{UPDATE T SET t = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 300) g) WHERE id = 3; UPDATE T SET a = 33 WHERE id = 3});
applied('toasted values');

# --- triggers there
for my $name (@twins)
{
	$sub->safe_psql('postgres', qq{
CREATE TABLE log_$name (n serial, o text, w text);
CREATE FUNCTION note_$name() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
	INSERT INTO public.log_$name (o, w) VALUES (left(OLD::text, 40), left(NEW::text, 40)); IF TG_WHEN = 'BEFORE' AND TG_OP = 'UPDATE' THEN NEW.b := NEW.b + 1000; END IF; RETURN coalesce(NEW, OLD); END \$\$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON $name FOR EACH ROW EXECUTE FUNCTION note_$name();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON $name FOR EACH ROW EXECUTE FUNCTION note_$name();
ALTER TABLE $name ENABLE ALWAYS TRIGGER b; ALTER TABLE $name ENABLE ALWAYS TRIGGER a;});
}
on_pub('BEGIN; UPDATE T SET a = a + 1 WHERE id BETWEEN 30 AND 33; UPDATE T SET a = a + 1 WHERE id = 31; DELETE FROM T WHERE id = 33; COMMIT');
applied('with triggers');
for my $t (sort keys %table)
{
	my ($z, $h) = map { $sub->safe_psql('postgres', "SELECT o, w FROM log_${_}_$t ORDER BY n") } qw(z h);
	isnt($z, '', "triggers of $t fired");
	is($z, $h, "triggers of $t saw the same");
}
$sub->safe_psql('postgres', join ';', map { "DROP TRIGGER a ON $_; DROP TRIGGER b ON $_" } @twins);

# --- a local transaction has the row while it is to be applied
my $id = 40;
for my $local ('UPDATE T SET b = b + 50 WHERE id = ID', 'UPDATE T SET t = t || t WHERE id = ID', 'DELETE FROM T WHERE id = ID',
	'SELECT FROM T WHERE id = ID FOR UPDATE', 'UPDATE T SET b = 1 WHERE id = ID; UPDATE T SET b = 0 WHERE id = ID')
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		for my $change ($id == 40 ? ('UPDATE T SET a = a + 7 WHERE id = ID', 'DELETE FROM T WHERE id = ID') : 'UPDATE T SET a = a + 7 WHERE id = ID')
		{
			$pub->safe_psql('postgres', join ';', map { "INSERT INTO $_ VALUES ($id, 0, 0, 't')" } @twins) if $id > 50;
			$pub->wait_for_catchup('s');

			my $s = session($sub);
			ask($s, 'BEGIN');
			for my $name (@twins)
			{
				(my $l = $local) =~ s/\bT\b/$name/g;
				$l =~ s/\bID\b/$id/g;
				ask($s, $l);
			}
			(my $c = $change) =~ s/\bID\b/$id/g;
			on_pub($c);
			ok($sub->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker' AND wait_event_type = 'Lock'}),
				"apply waits for: $local");
			ask($s, $end);
			finish_session($s);
			applied("$change beside $local, $end");
			$id++;
			$id = 200 if $id == 50;
		}
	}
}
check_tables($sub, 'at the end');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');
undo_quiet($sub, 'at the end');
$sub->stop;
$pub->stop;
log_is_clean($sub);
done_testing();
