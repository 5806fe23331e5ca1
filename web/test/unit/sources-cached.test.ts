import assert from "node:assert/strict";
import { test } from "node:test";
import { openCached } from "../../src/sources/cached.ts";
import { openSource } from "../../src/sources/open.ts";
import { FOLDER, Store } from "../../src/sources/store.ts";
import { FakeFolder, pattern } from "./fakes.ts";
import { URL_, CHUNK, DATA, sha, machine, pause, settle, journalOf, stored } from "./machine.ts";

test("a file downloads in parallel chunks, and opens without a request afterwards", async () => {
  let open = 0;
  let most = 0;
  let full!: () => void;
  const four = new Promise<void>((resolve) => (full = resolve));
  const m = machine({
    gate: async () => {
      most = Math.max(most, ++open);
      if (open === 4) full();
      await four; // no request ends before four have started
      await pause(5);
      open--;
    },
  });
  const first = await m.open();
  assert.equal(first.size, DATA.length);
  assert.deepEqual(await first.read(5, 60_000), DATA.slice(5, 60_005));
  await first.finished();
  assert.ok(most >= 4 && most <= 5, `${most} connections at once`);
  assert.equal(m.log.length, 10);
  assert.deepEqual(m.progress.at(-1)!.slice(0, 2), [95_000, 95_000]);
  first.close();
  await settle();
  const journal = await journalOf(m.folder);
  assert.equal(journal?.done, true);
  assert.deepEqual(
    journal?.hashes,
    Array.from({ length: 10 }, (_, i) => sha(DATA.subarray(i * CHUNK, (i + 1) * CHUNK))),
  );
  m.script.status = 500;
  const again = await m.open();
  assert.deepEqual(await again.read(0, DATA.length), DATA);
  await again.finished();
  again.close();
  assert.equal(m.log.length, 10);
  assert.deepEqual(m.notices, []);
});

test("a chunk that a reader waits for goes first", async () => {
  let go!: () => void;
  const first = new Promise<void>((resolve) => (go = resolve));
  const later = new Promise<void>(() => undefined);
  // The first chunk arrives once the read has been requested, and the other chunks never do.
  const m = machine({ gate: (range) => (/=80000-/.test(range) ? undefined : /=0-/.test(range) ? first : later) });
  const source = await m.open();
  const reading = source.read(81_000, 100);
  go();
  assert.deepEqual(await reading, DATA.slice(81_000, 81_100));
  assert.ok(m.log.slice(0, 6).includes("80000-89999"), m.log.join(" "));
  assert.ok(m.log.length < 10, "requested the rest of the file");
  source.close();
});

test("a read takes what has arrived of a chunk, and the end waits for its hash", async () => {
  const never = new Promise<void>(() => undefined);
  // The first response breaks off, and the rest is never sent.
  const broken = machine({ breaks: [4000], gate: (range) => (/=[1-9]/.test(range) ? never : undefined) });
  const source = await broken.open();
  assert.deepEqual(await source.read(1000, 3000), DATA.slice(1000, 4000));
  assert.equal((await journalOf(broken.folder))!.hashes.length, 0);
  const beyond = source.read(3000, 1001);
  assert.equal(await Promise.race([beyond, source.finished(), pause(50).then(() => "waits")]), "waits");
  beyond.catch(() => undefined);
  source.close();
  await settle();
  assert.equal((await broken.store.list())[0]?.have ?? 0, 0);
});

test("chunks of a closed tab are reused after verification", async () => {
  const folder = new FakeFolder();
  const m = machine(
    { gate: (range) => (/^bytes=[6-9]/.test(range) ? new Promise(() => undefined) : undefined) },
    folder,
  );
  const killed = await m.open();
  await killed.read(0, 50_000);
  await stored(folder, 5);
  killed.close();
  await settle();
  const have = (await journalOf(folder))!.hashes.filter(Boolean).length;
  assert.ok(have >= 5 && have <= 6, `${have} chunks`);
  // One chunk is damaged on disk, and the last line of the journal is torn.
  folder.files.get(await Store.key(URL_))![12_345]! ^= 1;
  const name = `${await Store.key(URL_)}.journal`;
  folder.files.set(name, new Uint8Array([...folder.files.get(name)!, ...new TextEncoder().encode('[9,"abc')]));
  const next = machine({}, folder);
  const resumed = await next.open();
  assert.deepEqual(await resumed.read(0, DATA.length), DATA);
  await resumed.finished();
  assert.ok(next.log.includes("10000-19999"), "the damaged chunk was not downloaded again");
  assert.ok(
    !next.log.includes("0-9999") && !next.log.includes("30000-39999"),
    "undamaged chunks were downloaded again",
  );
  assert.equal(next.notices.length, 1);
  assert.match(next.notices[0]!, /tiny\.gguf: 10 kB of the copy in this browser are damaged; downloading them again/);
  resumed.close();
  await settle();
  assert.equal((await journalOf(folder))?.done, true);
});

test("a damaged chunk of a complete file is replaced", async () => {
  const m = machine();
  const first = await m.open();
  await first.finished();
  first.close();
  await settle();
  m.folder.files.get(await Store.key(URL_))![94_999]! ^= 255;
  m.log.length = 0;
  const source = await m.open();
  assert.deepEqual(await source.read(90_000, 5000), DATA.slice(90_000));
  await source.finished();
  source.close();
  await settle();
  assert.deepEqual(m.log, ["90000-94999"]);
  assert.equal((await journalOf(m.folder))?.done, true);
  const third = await m.open();
  await third.read(0, DATA.length);
  assert.deepEqual([m.log.length, m.notices.length], [1, 1]);
  third.close();
});

test("reads go on while the file is opened again for a damaged chunk", async (t) => {
  const m = machine();
  const first = await m.open();
  await first.finished();
  first.close();
  await settle();
  m.folder.files.get(await Store.key(URL_))![15_000]! ^= 255;
  const source = await m.open();
  const reads: Promise<Uint8Array>[] = [];
  const digest = crypto.subtle.digest.bind(crypto.subtle);
  const start = async (): Promise<void> => {
    for (let step = 0; step < 30; step++, await null) reads.push(source.read(0, 10));
  };
  // From each hash of the stored copy on, a read starts at each step of the promises that open the file again.
  t.mock.method(crypto.subtle, "digest", async (...of: Parameters<typeof digest>) => {
    const hash = await digest(...of);
    if (m.notices.length === 0) void start();
    return hash;
  });
  await source.read(0, 10); // and verifies the next chunk
  await source.read(15_000, 10);
  assert.ok(reads.length >= 30);
  for (const bytes of await Promise.all(reads)) assert.deepEqual(bytes, DATA.slice(0, 10));
  assert.deepEqual(await source.read(10_000, 10_000), DATA.slice(10_000, 20_000));
  assert.equal(m.notices.length, 1);
  source.close();
  await settle();
});

test("a changed file on the server is not mixed with the stored chunks", async () => {
  for (const change of [
    { etag: '"two"' },
    { etag: undefined, modified: "Tue, 03 Jun 2025 10:00:00 GMT" },
    { etag: undefined, data: DATA.slice(0, 94_000) },
  ]) {
    const folder = new FakeFolder();
    const m = machine(
      {
        ...(change.etag ? {} : { etag: undefined, modified: "Mon, 02 Jun 2025 10:00:00 GMT" }),
        gate: (range) => (/^bytes=[5-9]/.test(range) ? new Promise(() => undefined) : undefined),
      },
      folder,
    );
    const killed = await m.open();
    await killed.read(0, 40_000);
    await stored(folder, 4);
    killed.close();
    await settle();
    const next = machine({ data: pattern(95_000, 3), ...change }, folder);
    const source = await next.open();
    const data = next.script.data;
    assert.deepEqual(await source.read(0, data.length), data);
    assert.match(
      next.notices.join(),
      /tiny\.gguf: the file changed on the server since its download began; discarding the \d\d(\.0)? kB stored/,
    );
    source.close();
    await settle();
  }
});

test("policy check compares a complete copy with the server, and uses it if the server is unreachable", async () => {
  const m = machine();
  const first = await m.open();
  await first.finished();
  first.close();
  await settle();
  m.log.length = 0;
  let source = await m.open({ policy: "check" });
  await source.read(0, DATA.length);
  assert.deepEqual(m.log, ["0-0"]);
  source.close();
  m.script.status = 503;
  source = await m.open({ policy: "check" });
  assert.deepEqual(await source.read(50_000, 9), DATA.slice(50_000, 50_009));
  source.close();
  await settle();
  delete m.script.status;
  m.script.etag = '"two"';
  m.script.data = pattern(70_000, 5);
  source = await m.open({ policy: "check" });
  assert.deepEqual(await source.read(0, 70_000), m.script.data);
  assert.match(m.notices.join(), /changed on the server; discarding the old copy/);
  source.close();
});

test("a change during a download ends it and deletes the copy", async () => {
  const m = machine({ gate: async (range) => void (range === "bytes=20000-29999" && (m.script.etag = '"two"')) });
  const source = await m.open();
  await assert.rejects(
    source.finished(),
    /tiny\.gguf: download: the file changed on the server while it was being read/,
  );
  await assert.rejects(source.read(90_000, 10), /changed on the server/);
  source.close();
  await settle();
  assert.equal(m.folder.files.size, 0);
});

test("a file must have its published checksum", async () => {
  const good = machine();
  const source = await good.open({ published: async () => sha(DATA) });
  await source.finished();
  source.close();
  await settle();
  assert.equal((await journalOf(good.folder))?.verified, sha(DATA));

  for (const options of [{ published: async () => sha(DATA.slice(1)) }, { expected: sha(DATA.slice(1)) }, {}]) {
    const bad = machine(
      "published" in options || "expected" in options
        ? {}
        : { headers: { "X-Linked-Etag": `"${sha(DATA.slice(1))}"` } },
    );
    const wrong = await bad.open(options);
    await assert.rejects(
      wrong.finished(),
      /tiny\.gguf: sha256: the download does not have its published checksum: \w{64} instead of \w{64}; deleted it/,
    );
    wrong.close();
    await settle();
    assert.equal(bad.folder.files.size, 0);
  }
  // A stored file with a different checksum than requested is replaced.
  const m = machine();
  const first = await m.open({ expected: sha(DATA) });
  await first.finished();
  first.close();
  await settle();
  m.script.data = pattern(60_000, 9);
  m.script.etag = '"two"';
  const other = await m.open({ expected: sha(m.script.data) });
  assert.deepEqual(await other.read(0, 60_000), m.script.data);
  await other.finished();
  assert.match(m.notices.join(), /does not have the requested SHA-256/);
  other.close();
});

test("a full disk prevents the download, and the error names files to delete", async () => {
  const folder = new FakeFolder();
  const small = machine({ data: DATA.slice(0, 50_000) }, folder);
  const kept = await openCached(small.store, "https://models.test/other.gguf", "other.gguf", {
    chunk: CHUNK,
    fetch: small.fetch,
  });
  await kept!.finished();
  kept!.close();
  await settle();
  folder.quota = 120_000;
  const m = machine({}, folder);
  await assert.rejects(m.open(), (error: Error & { code?: string }) => {
    assert.equal(error.code, "quota");
    assert.match(
      error.message,
      new RegExp(
        String.raw`tiny\.gguf: storage: no space to store it: it has 95 kB, and this site uses 140 kB of the 150 kB ` +
          String.raw`that the browser allows; delete one of the kept models \(other\.gguf, 50 kB\) ` +
          "under Kept models, or load without keeping it",
      ),
    );
    return true;
  });
  await settle();
  assert.equal(m.log.length, 1, "sent more than one request");
  assert.deepEqual(
    (await m.store.list()).map((file) => [file.name, file.have, file.done]),
    [["other.gguf", 50_000, true]],
  );
});

/**
 * Attack: a store without room at the start or half-way, or that fails
 * Bound: with the cache auto the load goes on uncached and says so; first fails
 */
test("with the policy auto a store that fails does not fail the load, whenever it does", async (t) => {
  const unknown = (): never => {
    throw new DOMException("The operation failed for an unknown transient reason", "UnknownError");
  };
  const failures: Record<string, (folder: FakeFolder) => void> = {
    "no room at the start": (folder) => void (folder.quota = 90_000),
    "no room for the journal": (folder) => void (folder.quota = 95_200),
    "a full disk half-way": (folder) => void (folder.fullAfter = 45_000),
    "a folder that cannot be used": (folder) => void (folder.getFileHandle = unknown),
  };
  for (const [name, arrange] of Object.entries(failures))
    await t.test(name, async () => {
      const folder = new FakeFolder();
      arrange(folder);
      const m = machine({}, folder);
      const hosts = globalThis as unknown as Record<string, unknown>;
      hosts.FileSystemFileHandle = class {
        createSyncAccessHandle(): void {}
      };
      const getDirectory = async () => ({ getDirectoryHandle: async () => folder.handle });
      Object.assign(navigator.storage, { getDirectory });
      const notices: string[] = [];
      try {
        const spec = { kind: "url", url: URL_, cache: "auto" } as const;
        const options = { fetch: m.fetch, retryDelay: 1, chunk: CHUNK };
        const source = await openSource(spec, { notice: (text) => notices.push(text) }, options);
        for (const at of [0, 50_000, 90_000]) assert.deepEqual(await source.read(at, 5000), DATA.slice(at, at + 5000));
        await source.finished?.();
        const open = [...folder.locked];
        source.close?.();
        await settle();
        assert.deepEqual(open, [], "files of a store that failed");
        assert.equal(notices.length, 1, notices.join("\n"));
        assert.match(notices[0]!, /^tiny\.gguf: not kept for the next visit: (no space to store it|UnknownError)/);
        // A checksum is compared with the whole file, or the load ends.
        for (const sha256 of [sha(DATA), sha(DATA.slice(1))]) {
          folder.files.clear();
          folder.wrote = 0;
          const pinned = async (): Promise<Uint8Array> => {
            const source = await openSource({ ...spec, sha256 }, {}, options);
            const bytes = await source.read(0, DATA.length).finally(() => source.close?.());
            await source.finished?.();
            return bytes;
          };
          const late = name === "a full disk half-way";
          if (late) await assert.rejects(pinned, /checksum cannot be compared, or load without keeping it/);
          else if (sha256 === sha(DATA)) assert.deepEqual(await pinned(), DATA);
          else await assert.rejects(pinned, { code: "checksum" });
          await settle();
        }
        // Whoever asks for the file to be kept is told.
        const kept = async (): Promise<void> => {
          const source = await openSource({ ...spec, cache: "first" }, {}, options);
          await source.finished?.().finally(() => source.close?.());
        };
        await assert.rejects(kept(), /no space to store it|UnknownError|unknown transient/);
        await settle();
      } finally {
        delete hosts.FileSystemFileHandle;
      }
    });
});

test("without ranges a file downloads in order, and a restart compares the stored chunks", async () => {
  const m = machine({ ranges: false, breaks: [33_333] });
  const source = await m.open();
  assert.deepEqual(await source.read(90_000, 5000), DATA.slice(90_000));
  await source.finished();
  assert.equal(m.log.length, 2);
  assert.match(m.notices.join(), /does not send parts of a file/);
  source.close();
  const other = machine({ ranges: false, etag: undefined, breaks: [33_333] });
  const changing = await other.open();
  await changing.read(0, 30_000);
  other.script.data = pattern(95_000, 11);
  await assert.rejects(changing.finished(), /changed on the server/);
  changing.close();
});

test("dropped connections resume; stored chunks survive a network failure", async () => {
  const m = machine({ breaks: [4000, undefined, 100] });
  const source = await m.open();
  assert.deepEqual(await source.read(0, DATA.length), DATA);
  assert.ok(m.log.includes("4000-9999") && m.log.includes("20100-29999"), m.log.join(" "));
  source.close();

  let release!: () => void;
  const broken = new Promise<void>((resolve) => (release = resolve));
  const down = machine({ gate: (range) => (/=[01]?\d{1,4}-/.test(range) ? undefined : broken) });
  const dying = await down.open();
  await dying.read(0, 20_000);
  await stored(down.folder, 2);
  down.script.breaks = Array(1000).fill(0);
  release();
  await assert.rejects(dying.finished(), /the connection dropped at byte \d+ and 4 retries failed/);
  dying.close();
  await settle();
  assert.ok((await down.store.list())[0]!.have >= 20_000);
});

test("a download that never started leaves no files", async () => {
  for (const script of [{ status: 404 }, { headers: { "Content-Type": "text/html" } }]) {
    const m = machine(script);
    await assert.rejects(m.open(), /tiny\.gguf: /);
    await settle();
    assert.deepEqual([...m.folder.files.keys()], []);
    assert.deepEqual([...m.folder.locked], []);
  }
});

test("errors report a wrong length header", async () => {
  const long = machine({ headers: { "Content-Length": "99999" } });
  const announced = await long.open();
  await assert.rejects(
    announced.finished(),
    /the server's length header is wrong: it announces 99999 bytes for a range of 10000/,
  );
  announced.close();
  // The server announces more bytes than the file has.
  const more = machine({ total: 200_000 });
  const short = await more.open();
  await assert.rejects(
    short.read(150_000, 1),
    /the server has no bytes from \d+ on, although its length header announced them/,
  );
  short.close();
});

test("one of two tabs downloads; the other waits, and takes over when the first closes", async () => {
  const folder = new FakeFolder();
  const m = machine(
    { gate: (range) => (/^bytes=[7-9]/.test(range) ? new Promise(() => undefined) : undefined) },
    folder,
  );
  const first = await m.open();
  await first.read(0, 60_000);
  await stored(folder, 6);
  const waiting = m.open();
  await pause(20);
  assert.equal(await Promise.race([waiting, Promise.resolve("waits")]), "waits");
  delete m.script.gate;
  first.close();
  const second = await waiting;
  assert.deepEqual(await second.read(0, DATA.length), DATA);
  await second.finished();
  assert.equal(
    new Set(m.log.filter((range) => /^[0-5]/.test(range))).size,
    m.log.filter((range) => /^[0-5]/.test(range)).length,
    "a stored chunk was downloaded twice",
  );
  // A third tab opens the file while the second has it open; the second is complete and shares it.
  second.close();
  const [a, b] = await Promise.all([m.open(), m.open()]);
  assert.deepEqual(await a.read(0, 100), await b.read(0, 100));
  a.close();
  b.close();
});

test("aborting ends a download within a chunk", async () => {
  const control = new AbortController();
  const m = machine({ gate: (range) => (range === "bytes=0-9999" ? undefined : new Promise(() => undefined)) });
  const source = await m.open({ signal: control.signal });
  const reading = source.read(50_000, 10);
  control.abort(new DOMException("stopped", "AbortError"));
  await assert.rejects(reading, /stopped/);
  source.close();
  await settle();
  assert.deepEqual([...m.folder.locked], []);
});

test("lists show stored files, deleting frees space, and a file in use stays", async () => {
  const m = machine();
  const source = await m.open();
  await source.read(0, 10);
  assert.equal(await m.store.remove(await Store.key(URL_)), false);
  await source.finished();
  source.close();
  await settle();
  const [file] = await m.store.list();
  assert.deepEqual(
    [file!.name, file!.url, file!.size, file!.have, file!.done],
    ["tiny.gguf", URL_, 95_000, 95_000, true],
  );
  assert.equal(await m.store.remove(file!.key), true);
  assert.deepEqual(await m.store.list(), []);
  assert.equal(FOLDER, "foretoken-models");
});

test("a list made during a deletion shows a file with its name or not at all", async () => {
  const m = machine();
  const source = await m.open();
  await source.finished();
  source.close();
  await settle();
  const key = await Store.key(URL_);
  const whole = [...m.folder.files];
  for (const gone of [[key], [`${key}.journal`, key]]) {
    m.folder.files.clear();
    for (const [name, bytes] of whole) m.folder.files.set(name, bytes);
    const names = m.folder.keys.bind(m.folder);
    m.folder.keys = async function* () {
      const before = []; // the folder's entries are read before the deletion
      for await (const name of names()) before.push(name);
      for (const name of gone) await m.folder.removeEntry(name);
      yield* before;
    };
    assert.deepEqual(
      (await m.store.list()).map((file) => file.name),
      gone.length === 1 ? ["tiny.gguf"] : [],
    );
    m.folder.keys = names;
  }
  // A download that just started has no bytes; bytes without a journal take space and can be deleted.
  m.folder.files.clear();
  m.folder.files.set(key, new Uint8Array());
  assert.deepEqual(await m.store.list(), []);
  m.folder.files.set(key, new Uint8Array(3));
  assert.deepEqual(
    (await m.store.list()).map((file) => [file.name, file.size]),
    [["unknown file", 3]],
  );
});
