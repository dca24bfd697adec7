// Makes Node's http, https and fetch use the proxy that HTTP_PROXY and
// HTTPS_PROXY name, in versions of Node that do not do it by themselves.
'use strict';

const env = process.env;
const proxy = env.HTTPS_PROXY || env.https_proxy || env.HTTP_PROXY || env.http_proxy;
const [major, minor] = process.versions.node.split('.').map(Number);
const native = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);

if (proxy && !native) {
  const http = require('http');
  const https = require('https');
  const net = require('net');
  const at = new URL(proxy);
  const direct = (env.NO_PROXY || env.no_proxy || '').split(',').map((s) => s.trim().toLowerCase()).filter(Boolean);

  const isDirect = (host) => {
    const h = String(host || 'localhost').toLowerCase().replace(/^\[|\]$/g, '');
    return direct.some((d) => d === '*' || h === d || h.endsWith('.' + d.replace(/^\./, '')));
  };

  // open calls done with a socket that leads to host:port through the proxy.
  const open = (host, port, done) => {
    const name = host.includes(':') ? `[${host}]` : host;
    const req = http.request({
      host: at.hostname, port: at.port || 80, method: 'CONNECT', path: `${name}:${port}`,
      headers: { host: `${name}:${port}` }, agent: false,
    });
    req.once('connect', (res, socket, head) => {
      if (res.statusCode !== 200) {
        socket.destroy();
        done(new Error(`proxy: ${res.statusCode} ${res.statusMessage}`));
        return;
      }
      if (head.length > 0) socket.unshift(head);
      done(null, socket);
    });
    req.once('error', done);
    req.end();
  };

  // tunnel returns an agent whose connections go through the proxy.
  const tunnel = (Agent, secure) => class extends Agent {
    createConnection(options, done) {
      const host = options.host || options.hostname || 'localhost';
      if (options.socketPath || isDirect(host)) return super.createConnection(options, done);
      const make = super.createConnection.bind(this);
      open(host, options.port || (secure ? 443 : 80), (err, socket) => {
        if (err) return done(err);
        if (!secure) return done(null, socket);
        const servername = options.servername || (net.isIP(host) ? '' : host);
        const tls = make({ ...options, socket, servername });
        done(null, tls);
      });
      return undefined;
    }
  };
  const install = (mod, secure) => {
    const agent = new (tunnel(mod.Agent, secure))({ ...mod.globalAgent.options });
    mod.globalAgent = agent;
  };
  install(http, false);
  install(https, true);

  // fetch: the dispatcher that Node made knows the class of its kind.
  const key = Symbol.for('undici.globalDispatcher.1');
  const real = globalThis.fetch;
  let ready = false;
  const prepare = () => {
    ready = true;
    try { real('data:,').catch(() => {}); } catch { /* fetch is not there */ }
    const made = globalThis[key];
    if (!made || made.constructor.name !== 'Agent') return; // the program set its own
    const tls = require('tls');
    globalThis[key] = new made.constructor({
      connect: (options, done) => {
        const secure = options.protocol === 'https:';
        const port = options.port || (secure ? 443 : 80);
        const finish = (socket) => {
          if (!secure) return done(null, socket);
          const t = tls.connect({ ...options, socket, servername: options.servername || options.hostname, ALPNProtocols: ['http/1.1'] });
          t.once('secureConnect', () => { t.removeAllListeners('error'); done(null, t); });
          t.once('error', (err) => done(err));
          return t;
        };
        if (isDirect(options.hostname)) {
          const s = net.connect({ host: options.hostname.replace(/^\[|\]$/g, ''), port });
          s.once('connect', () => { s.removeAllListeners('error'); finish(s); });
          s.once('error', (err) => done(err));
          return;
        }
        open(options.hostname.replace(/^\[|\]$/g, ''), port, (err, socket) => (err ? done(err) : finish(socket)));
      },
    });
  };
  if (real) {
    globalThis.fetch = function fetch(...args) {
      if (!ready) prepare();
      return real.apply(this, args);
    };
  }
}
