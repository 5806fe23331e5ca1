// A file system for Go in a worker with the interface of Node's fs, which wasm_exec.js expects. Real files are
// read-only, through HTTP ranges from the runner's server. Files under /gotmp are in memory and writable, for
// t.TempDir.
"use strict";
self.installFileSystem = (cwd, output) => {
  const TEMPORARY = "/gotmp";
  const BLOCK = 1 << 20; // bytes per request, for small reads
  const S_IFDIR = 0o40000,
    S_IFREG = 0o100000,
    S_IFMT = 0o170000;
  const constants = {
    O_WRONLY: 1,
    O_RDWR: 2,
    O_CREAT: 64,
    O_EXCL: 128,
    O_TRUNC: 512,
    O_APPEND: 1024,
    O_DIRECTORY: 65536,
  };

  const failure = (code, message = code) => Object.assign(new Error(message), { code });

  function resolve(...segments) {
    let all = "";
    for (const s of segments) all = s.startsWith("/") ? s : `${all}/${s}`;
    if (!all.startsWith("/")) all = `${cwd}/${all}`;
    const parts = [];
    for (const p of all.split("/")) {
      if (p === "..") parts.pop();
      else if (p && p !== ".") parts.push(p);
    }
    return "/" + parts.join("/");
  }
  const absolute = (name) => resolve(cwd, name);
  const temporary = (name) => name === TEMPORARY || name.startsWith(TEMPORARY + "/");
  const parent = (name) => name.slice(0, name.lastIndexOf("/")) || "/";

  // In memory: absolute name → {mode, data, size, mtimeMs, ino}; data grows by doubling.
  let inodes = 1;
  const node = (mode) => ({ mode, data: new Uint8Array(0), size: 0, mtimeMs: Date.now(), ino: inodes++ });
  const memory = new Map([[TEMPORARY, node(S_IFDIR | 0o755)]]);

  function existing(name) {
    const n = memory.get(name);
    if (!n) throw failure("ENOENT", `${name}: no such file`);
    return n;
  }
  function children(name) {
    return [...memory.keys()]
      .filter((k) => k !== name && parent(k) === name)
      .map((k) => k.slice(name.length + 1))
      .sort();
  }
  function needDirectory(name) {
    if ((existing(name).mode & S_IFMT) !== S_IFDIR) throw failure("ENOTDIR");
  }
  function resize(n, size) {
    if (size > n.data.length) {
      const data = new Uint8Array(Math.max(size, 2 * n.data.length));
      data.set(n.data.subarray(0, n.size));
      n.data = data;
    }
    if (size < n.size) n.data.fill(0, size, n.size);
    n.size = size;
    n.mtimeMs = Date.now();
  }

  async function ask(what, name) {
    const r = await fetch(`/file/${what}?name=${encodeURIComponent(name)}`);
    const value = await r.json();
    if (!r.ok) throw failure(value.code, value.message);
    return value;
  }
  async function fetchRange(name, from, to) {
    const r = await fetch(`/file/read?name=${encodeURIComponent(name)}`, {
      headers: { range: `bytes=${from}-${to - 1}` },
    });
    if (!r.ok) throw failure((await r.json()).code);
    return new Uint8Array(await r.arrayBuffer());
  }

  function stats({ mode, size, mtimeMs, ino }) {
    return {
      dev: 1,
      ino,
      mode,
      nlink: 1,
      uid: 0,
      gid: 0,
      rdev: 0,
      size,
      blksize: 4096,
      blocks: Math.ceil(size / 512),
      atimeMs: mtimeMs,
      mtimeMs,
      ctimeMs: mtimeMs,
      isDirectory: () => (mode & S_IFMT) === S_IFDIR,
    };
  }
  async function stat(name) {
    name = absolute(name);
    return stats(temporary(name) ? existing(name) : await ask("stat", name));
  }

  let nextFD = 100;
  const open = new Map(); // fd → {name, node?, stat?, position, append, block}

  function opened(fd) {
    const f = open.get(fd);
    if (!f) throw failure("EBADF");
    return f;
  }

  function openTemporary(name, flags, mode) {
    let n = memory.get(name);
    if (n && flags & constants.O_CREAT && flags & constants.O_EXCL) throw failure("EEXIST");
    if (!n) {
      if (!(flags & constants.O_CREAT)) throw failure("ENOENT", `${name}: no such file`);
      needDirectory(parent(name));
      memory.set(name, (n = node(S_IFREG | (mode & 0o777))));
    }
    const writing = flags & (constants.O_WRONLY | constants.O_RDWR);
    if ((n.mode & S_IFMT) === S_IFDIR && writing) throw failure("EISDIR");
    if (flags & constants.O_TRUNC && writing) resize(n, 0);
    return n;
  }

  async function readAt(f, into, position) {
    if (f.node) {
      if ((f.node.mode & S_IFMT) === S_IFDIR) throw failure("EISDIR");
      const part = f.node.data.subarray(position, Math.min(f.node.size, position + into.length));
      into.set(part);
      return part.length;
    }
    if ((f.stat.mode & S_IFMT) === S_IFDIR) throw failure("EISDIR");
    const to = Math.min(position + into.length, f.stat.size);
    if (position >= to) return 0;
    if (to - position >= BLOCK / 4) {
      const part = await fetchRange(f.name, position, to);
      into.set(part);
      return part.length;
    }
    let b = f.block;
    if (!b || position < b.from || position >= b.from + b.bytes.length) {
      b = f.block = {
        from: position,
        bytes: await fetchRange(f.name, position, Math.min(position + BLOCK, f.stat.size)),
      };
    }
    const part = b.bytes.subarray(position - b.from, to - b.from);
    into.set(part);
    return part.length;
  }

  // Each function returns the callback's value or a promise of it, or throws.
  const readOnly = () => {
    throw failure("EROFS", "only files under /gotmp can be written");
  };
  const nodeOf = (name) => (temporary((name = absolute(name))) ? existing(name) : readOnly());
  const calls = {
    async open(name, flags, mode) {
      name = absolute(name);
      const fd = nextFD++;
      if (temporary(name)) {
        const n = openTemporary(name, flags, mode);
        open.set(fd, { name, node: n, position: 0, append: Boolean(flags & constants.O_APPEND) });
      } else {
        if (flags & (constants.O_WRONLY | constants.O_RDWR | constants.O_CREAT)) readOnly();
        open.set(fd, { name, stat: await ask("stat", name), position: 0 });
      }
      const f = open.get(fd);
      if (flags & constants.O_DIRECTORY && ((f.node ?? f.stat).mode & S_IFMT) !== S_IFDIR) {
        open.delete(fd);
        throw failure("ENOTDIR");
      }
      return fd;
    },
    close(fd) {
      opened(fd);
      open.delete(fd);
    },
    fstat(fd) {
      const f = opened(fd);
      return stats(f.node ?? f.stat);
    },
    stat,
    lstat: stat,
    readdir(name) {
      name = absolute(name);
      if (!temporary(name)) return ask("readdir", name);
      needDirectory(name);
      return children(name);
    },
    async read(fd, buffer, offset, length, position) {
      if (fd === 0) return 0; // standard input is empty
      const f = opened(fd);
      const n = await readAt(f, buffer.subarray(offset, offset + length), position ?? f.position);
      if (position === null || position === undefined) f.position += n;
      return n;
    },
    write(fd, buffer, offset, length, position) {
      const bytes = buffer.subarray(offset, offset + length);
      if (fd === 1 || fd === 2) {
        output(fd, bytes);
        return length;
      }
      const f = opened(fd);
      if (!f.node) readOnly();
      const at = f.append ? f.node.size : (position ?? f.position);
      if (at + length > f.node.size) resize(f.node, at + length);
      f.node.data.set(bytes, at);
      if (position === null || position === undefined) f.position = at + length;
      return length;
    },
    fsync() {},
    mkdir(name, mode) {
      name = absolute(name);
      if (!temporary(name)) readOnly();
      if (memory.has(name)) throw failure("EEXIST");
      needDirectory(parent(name));
      memory.set(name, node(S_IFDIR | (mode & 0o777)));
    },
    rmdir(name) {
      nodeOf(name);
      needDirectory(absolute(name));
      if (children(absolute(name)).length) throw failure("ENOTEMPTY");
      memory.delete(absolute(name));
    },
    unlink(name) {
      if ((nodeOf(name).mode & S_IFMT) === S_IFDIR) throw failure("EISDIR");
      memory.delete(absolute(name));
    },
    rename(from, to) {
      const n = nodeOf(from);
      from = absolute(from);
      to = absolute(to);
      if (!temporary(to)) readOnly();
      needDirectory(parent(to));
      for (const k of [...memory.keys()]) {
        if (k.startsWith(from + "/")) {
          memory.set(to + k.slice(from.length), memory.get(k));
          memory.delete(k);
        }
      }
      memory.delete(from);
      memory.set(to, n);
    },
    truncate(name, length) {
      resize(nodeOf(name), length);
    },
    ftruncate(fd, length) {
      const f = opened(fd);
      if (!f.node) readOnly();
      resize(f.node, length);
    },
    chmod(name, mode) {
      const n = nodeOf(name);
      n.mode = (n.mode & S_IFMT) | (mode & 0o777);
    },
    fchmod(fd, mode) {
      const f = opened(fd);
      if (!f.node) readOnly();
      f.node.mode = (f.node.mode & S_IFMT) | (mode & 0o777);
    },
    utimes(name, atime, mtime) {
      nodeOf(name).mtimeMs = mtime * 1000;
    },
    readlink() {
      throw failure("EINVAL");
    }, // there are no links
  };
  const missing = ["chown", "fchown", "lchown", "link", "symlink"];

  const fs = {
    constants,
    writeSync(fd, bytes) {
      output(fd, bytes);
      return bytes.length;
    },
  };
  for (const [name, call] of Object.entries(calls)) {
    fs[name] = (...args) => {
      const callback = args.pop();
      Promise.resolve()
        .then(() => call(...args))
        .then(
          (v) => callback(null, v),
          (e) => callback(e),
        );
    };
  }
  for (const name of missing) fs[name] = (...args) => args.pop()(failure("ENOSYS"));

  self.fs = fs;
  self.path = { resolve: (...segments) => resolve(cwd, ...segments) };
  self.process = {
    getuid: () => -1,
    getgid: () => -1,
    geteuid: () => -1,
    getegid: () => -1,
    getgroups() {
      throw failure("ENOSYS");
    },
    pid: -1,
    ppid: -1,
    umask() {
      throw failure("ENOSYS");
    },
    cwd: () => cwd,
    chdir(name) {
      cwd = absolute(name);
    },
  };
};
