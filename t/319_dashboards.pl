# docs/postgres_exporter.yml by a real postgres_exporter, where there is one
# (Debian: prometheus-postgres-exporter, or EXPORTER=): each metric that it
# promises is there, with the values of the views.  docs/grafana.json: what Grafana
# needs of a dashboard, and no metric but those of the queries.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use IO::Socket::INET;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $docs = "$FindBin::RealBin/../docs";

# --- what the queries promise: metric -> [ usage, label of its query ]
my (%metric, $name, $label);
for my $line (split /\n/, slurp_file("$docs/postgres_exporter.yml"))
{
	($name, $label) = ($1, undef) if $line =~ /^(\w+):$/;
	next if $line !~ /^    - (\w+): \{usage: "(\w+)", description: "[^"]+"\}$/;
	if ($2 eq 'LABEL') { $label = $1 }
	else { $metric{"${name}_$1"} = [ $2, $label ] }
}
cmp_ok(scalar keys %metric, '>', 20, 'metrics of the queries');

# --- the dashboard
my $board = decode_json(slurp_file("$docs/grafana.json"));
ok(defined $board->{$_}, "dashboard: $_") for qw(title uid schemaVersion panels templating time);
my %variable = map { $_->{name} => $_ } @{ $board->{templating}{list} };
is($variable{datasource}{type}, 'datasource', 'dashboard: its data source is chosen where it is loaded');
my (%id, @place, %used);
for my $panel (@{ $board->{panels} })
{
	my ($title, $grid) = @$panel{qw(title gridPos)};
	ok(!$id{ $panel->{id} }++, "$title: an id of its own");
	like($panel->{type}, qr/^(stat|timeseries)$/, "$title: a kind of panel");
	ok($grid->{x} + $grid->{w} <= 24 && $grid->{h} > 0, "$title: on the screen");
	for my $p (@place)
	{
		ok( $p->{x} + $p->{w} <= $grid->{x} || $grid->{x} + $grid->{w} <= $p->{x}
			  || $p->{y} + $p->{h} <= $grid->{y} || $grid->{y} + $grid->{h} <= $p->{y}, "$title: beside others");
	}
	push @place, $grid;
	my %ref;
	for my $target (@{ $panel->{targets} })
	{
		ok(!$ref{ $target->{refId} }++, "$title: target $target->{refId}");
		my @names = $target->{expr} =~ /\b(zheap_\w+)/g;
		ok(@names > 0, "$title: asks for something");
		ok($metric{$_}, "$title: $_ is a metric") for @names;
		@used{@names} = ();
		my $counted = grep { $metric{$_} && $metric{$_}[0] eq 'COUNTER' } @names;
		is($target->{expr} =~ /^rate\(/ ? 1 : 0, $counted ? 1 : 0, "$title: counters are shown as rates");
		for my $l ($target->{legendFormat} =~ /\{\{(\w+)\}\}/g)
		{
			ok($l eq 'instance' || !grep({ ($metric{$_}[1] // '') ne $l } @names), "$title: $l is a label");
		}
	}
}
ok(exists $used{$_}, "dashboard: shows $_")
  for qw(zheap_undo_bytes zheap_undo_holders_bytes zheap_undo_holders_xact_seconds zheap_rollbacks_bytes_done zheap_updates_rows zheap_waits_sessions);

# --- the exporter
my $exporter = $ENV{EXPORTER} // (grep { -x $_ } map { "$_/prometheus-postgres-exporter" } split /:/, $ENV{PATH})[0];
SKIP:
{
	skip 'no postgres_exporter here', 1 if !defined $exporter;
	my $node = zheap_node('watched', conf => "autovacuum = off\nzheap.max_undo_size = 64MB\nzheap.rollback_foreground_size = 0\nzheap.rollback_paused = on");
	$node->start;
	$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b int) USING zheap;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 1000) g;
UPDATE t SET b = 1;
UPDATE t SET a = a + 1000 WHERE a <= 10;
BEGIN; UPDATE t SET b = 2; ROLLBACK;
CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher;
});
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
	$node->safe_psql('postgres', 'UPDATE t SET b = 3');
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_zheap_undo_holders WHERE kind = 'backend' AND held_bytes > 0});
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	local $ENV{DATA_SOURCE_NAME} = 'user=watcher dbname=postgres sslmode=disable host=' . $node->host . ' port=' . $node->port;
	my ($said, $in) = ('', '');
	my $process = IPC::Run::start([ $exporter, "--web.listen-address=127.0.0.1:$port", "--extend.query-path=$docs/postgres_exporter.yml" ], '<', \$in, '>', \$said, '2>', \$said);
	my $answer = '';
	for (1 .. 100)
	{
		my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
		if ($socket)
		{
			print $socket "GET /metrics HTTP/1.0\r\n\r\n";
			local $/;
			$answer = <$socket>;
			last if $answer =~ /^zheap_/m;
		}
		select(undef, undef, undef, 0.2);
	}
	$process->kill_kill;
	for my $m (sort keys %metric)
	{
		my ($usage, $l) = @{ $metric{$m} };
		like($answer, qr/^$m\{[^}]*\} \S+$/m, "exporter: $m") if !$l;
		like($answer, qr/^$m\{[^}]*\b$l="[^"]+"[^}]*\} \S+$/m, "exporter: $m by $l") if $l;
		like($answer, qr/^# TYPE $m \L$usage\E$/m, "exporter: $m is a \L$usage");
	}
	my $of = sub { my ($m, $l) = @_; return $answer =~ /^$m\{[^}]*$l[^}]*\} (\S+)$/m ? 0 + $1 : undef };
	is($of->('zheap_undo_limit_bytes', ''), 64 * 1024 * 1024, 'the limit');
	cmp_ok($of->('zheap_updates_rows', 'how="moved: indexed column"'), '>=', 10, 'rows that moved');
	cmp_ok($of->('zheap_updates_rows', 'how="in place"'), '>=', 2000, 'and that did not');
	is($of->('zheap_rollbacks_rollbacks', 'phase="paused"'), 1, 'the rollback that waits');
	cmp_ok($of->('zheap_undo_holders_xact_seconds', 'kind="backend"'), '>', 0, 'the old snapshot');
	unlike($said, qr/level=error/, 'no complaint of the exporter') or diag($said);
	finish_session($old);
	$node->stop;
}
done_testing();
