import sys, os, random
seed, key, session = (bytes.fromhex(x) for x in __args__)
from IPython import get_ipython
s = get_ipython().kernel.session
s.session = session.hex()
random.seed(seed)
def loaded(name, f):
    m = sys.modules.get(name)
    if m is not None:
        f(m)
words = [int.from_bytes(seed[i:i + 4], "little") for i in range(0, len(seed), 4)]
loaded("numpy.random", lambda m: m.seed(words))
loaded("_ssl", lambda m: m.RAND_add(seed, float(len(seed))))
def renew_uuid(m):
    m._node = int.from_bytes(os.urandom(6), "big") | 1 << 40
    m._last_timestamp = None
loaded("uuid", renew_uuid)
def renew_tempfile(m):
    m._name_sequence = None
loaded("tempfile", renew_tempfile)
def renew_multiprocessing(m):
    m.current_process().authkey = os.urandom(32)
loaded("multiprocessing.process", renew_multiprocessing)
s.key = key.hex().encode()
