create schema armilla;

create table armilla.account (
  only_one     boolean  primary key default true check (only_one),
  format       int      not null,
  account      uuid     not null,
  settings     bytea    not null
);
create sequence armilla.incarnations;
create table armilla.nodes (
  name         text     primary key,
  incarnation  bigint   not null,
  beats        bigint   not null,
  state        text     not null check (state in ('up', 'draining', 'gone')),
  catalog      bigint   not null,
  address      text     not null,
  version      text     not null
) with (fillfactor = 50);
create table armilla.shards (
  home         int      not null,
  shard        bigint   not null,
  epoch        bigint   not null,
  owner        text,
  incarnation  bigint,
  state        smallint not null check (state in (0, 1, 2)),  -- open, reshaped, dropped
  folded       bigint   not null,
  lsn          bigint   not null,                             -- as of folded
  standby      text,
  primary key (home, shard)
) with (fillfactor = 50);
create table armilla.journal (
  home         int      not null,
  shard        bigint   not null,
  place        bigint   not null,
  lsn          bigint   not null,                             -- of the last transaction in the batch
  chain        bigint   not null,
  batch        bytea    not null,
  primary key (home, shard, place)
) with (autovacuum_vacuum_scale_factor = 0.02);
alter table armilla.journal alter column batch set storage external;
create table armilla.base (
  home         int      not null,
  space        smallint not null,                             -- Keyspace number
  key          bytea    not null,
  value        bytea    not null,
  primary key (home, space, key)
) with (autovacuum_vacuum_scale_factor = 0.02);
create table armilla.counters (
  name         text     primary key,
  next         bigint   not null
);

create function armilla.join_node(n text, a text, v text) returns bigint language sql as $$
  insert into armilla.nodes values (n, nextval('armilla.incarnations'), 0, 'up', 0, a, v)
  on conflict (name) do update
     set incarnation = excluded.incarnation, beats = 0, state = 'up', catalog = 0, address = a, version = v
   where nodes.state = 'gone'
  returning incarnation
$$;

create function armilla.beat(n text, i bigint, c bigint) returns bigint language sql as $$
  update armilla.nodes set beats = beats + 1, catalog = c
   where name = n and incarnation = i and state <> 'gone' returning beats
$$;

create function armilla.evict(n text, i bigint, seen bigint) returns boolean language plpgsql as $$
begin
  update armilla.nodes set state = 'gone', beats = beats + 1
   where name = n and incarnation = i and beats = seen and state <> 'gone';
  return found;
end $$;

create function armilla.open_shards(h int, ss bigint[], ls bigint[]) returns void language plpgsql as $$
begin
  insert into armilla.shards select h, w.shard, 0, null, null, 0, 0, w.lsn, null
    from unnest(ss, ls) as w(shard, lsn) on conflict do nothing;
  insert into armilla.journal select h, w.shard, 0, w.lsn, 0, ''
    from unnest(ss, ls) as w(shard, lsn) on conflict do nothing;
end $$;

create function armilla.drop_shards(h int, ss bigint[]) returns void language sql as $$
  update armilla.shards set state = 2, epoch = epoch + 1, owner = null
   where home = h and shard = any (ss) and state <> 2
$$;

create function armilla.take(h int, s bigint, seen bigint, n text, i bigint)
returns table (epoch bigint, folded bigint, place bigint, lsn bigint, chain bigint) language plpgsql as $$
#variable_conflict use_column
declare e bigint; f bigint;
begin
  perform 1 from armilla.nodes x where x.name = n and x.incarnation = i and x.state <> 'gone' for share;
  if not found then return; end if;
  update armilla.shards x set epoch = x.epoch + 1, owner = n, incarnation = i
   where x.home = h and x.shard = s and x.epoch = seen and x.state = 0
     and (x.owner is null or (x.owner = n and x.incarnation = i) or not exists (
       select 1 from armilla.nodes y where y.name = x.owner and y.incarnation = x.incarnation and y.state <> 'gone'))
  returning x.epoch, x.folded into e, f;
  if not found then return; end if;
  return query select e, f, j.place, j.lsn, j.chain from armilla.journal j
   where j.home = h and j.shard = s order by j.place desc limit 1;
end $$;

create function armilla.release(h int, s bigint, e bigint) returns boolean language plpgsql as $$
begin
  update armilla.shards set epoch = epoch + 1, owner = null
   where home = h and shard = s and epoch = e and state = 0;
  return found;
end $$;

create function armilla.append(h int, ss bigint[], es bigint[], ps bigint[], ls bigint[], cs bigint[], bs bytea[])
returns setof bigint language plpgsql as $$
declare held bigint[];
begin
  select array_agg(x.shard) into held from (
    select s.shard from armilla.shards s join unnest(ss, es) as w(shard, epoch)
      on s.home = h and s.shard = w.shard and s.epoch = w.epoch and s.state = 0
    order by s.shard for no key update of s) x;
  return query insert into armilla.journal as j (home, shard, place, lsn, chain, batch)
    select h, w.shard, w.place, w.lsn, w.chain, w.batch
      from unnest(ss, ps, ls, cs, bs) as w(shard, place, lsn, chain, batch)
     where w.shard = any (held)
       and w.place = 1 + (select max(t.place) from armilla.journal t where t.home = h and t.shard = w.shard)
    returning j.shard;
end $$;

-- One row for one shard: what an owner sends. Plain parameters keep one plan for all calls; with arrays the database plans the insert anew each time.
create function armilla.append_one(h int, s bigint, e bigint, p bigint, l bigint, c bigint, b bytea)
returns boolean language plpgsql as $$
begin
  perform 1 from armilla.shards x where x.home = h and x.shard = s and x.epoch = e and x.state = 0 for no key update;
  if not found then return false; end if;
  insert into armilla.journal (home, shard, place, lsn, chain, batch) select h, s, p, l, c, b
   where p = 1 + (select max(t.place) from armilla.journal t where t.home = h and t.shard = s);
  return found;
end $$;

-- The shard's row is locked last: appends go on while states are written. A fold that lost its epoch meanwhile leaves nothing behind.
create function armilla.fold(h int, s bigint, e bigint, upto bigint, at_lsn bigint,
  ss smallint[], ks bytea[], vs bytea[], ds smallint[], dk bytea[]) returns boolean language plpgsql as $$
begin
  perform 1 from armilla.shards where home = h and shard = s and epoch = e and state = 0 and folded <= upto;
  if not found then return false; end if;
  insert into armilla.base select h, u.a, u.b, u.c from unnest(ss, ks, vs) as u(a, b, c)
    on conflict (home, space, key) do update set value = excluded.value;
  delete from armilla.base using unnest(ds, dk) as d(a, b)
   where base.home = h and base.space = d.a and base.key = d.b;
  update armilla.shards set folded = upto, lsn = at_lsn
   where home = h and shard = s and epoch = e and state = 0 and folded <= upto;
  if not found then raise exception using errcode = 'AR001'; end if;
  return true;
exception when sqlstate 'AR001' then
  return false;
end $$;

-- Nothing is locked, so no append waits for a delete: `folded` only grows, and what an owner of before removes is folded too.
create function armilla.cut(h int, s bigint, e bigint, upto bigint) returns bigint language plpgsql as $$
declare f bigint; n bigint;
begin
  select x.folded into f from armilla.shards x
   where x.home = h and x.shard = s and x.epoch = e and x.state = 0;
  if not found then return 0; end if;
  delete from armilla.journal j where j.home = h and j.shard = s and j.place < least(upto, f);
  get diagnostics n = row_count;
  return n;
end $$;

create function armilla.reshape(h int, old bigint[], es bigint[], ps bigint[], new bigint[], n text, i bigint,
  ls bigint[], cs bigint[], bs bytea[]) returns boolean language plpgsql as $$
declare held int;
begin
  perform 1 from armilla.shards x where x.home = h and x.shard = any (old) order by x.shard for no key update;
  select count(*) into held from armilla.shards x join unnest(old, es, ps) as w(shard, epoch, place)
      on x.home = h and x.shard = w.shard and x.epoch = w.epoch and x.state = 0 and x.folded = w.place
   where w.place = (select max(t.place) from armilla.journal t where t.home = h and t.shard = w.shard);
  if held <> cardinality(old) then return false; end if;
  update armilla.shards x set state = 1, epoch = x.epoch + 1, owner = null where x.home = h and x.shard = any (old);
  insert into armilla.shards select h, w.shard, 1, n, i, 0, 0, w.lsn, null from unnest(new, ls) as w(shard, lsn);
  insert into armilla.journal select h, w.shard, 1, w.lsn, w.chain, w.batch
    from unnest(new, ls, cs, bs) as w(shard, lsn, chain, batch);
  return true;
end $$;

create function armilla.reserve(n text, many bigint) returns bigint language sql as $$
  insert into armilla.counters values (n, 1 + many)
  on conflict (name) do update set next = counters.next + many
  returning next - many
$$;
