"""Named looks inside objects of the package, for tests of what no public method tells."""

from mxjax.contrib.amp import _policy, amp
from mxjax.eager import trace
from mxjax.eager.chunk import Retained
from mxjax.gluon._sharding import arrays
from mxjax.gluon.data.vision import datasets
from mxjax.graph.lowering import Lowered
from mxjax.kernel import arguments, policy
from mxjax.ops import registry
from mxjax.profiler import _profiler as recorder  # noqa: F401  the events of `mx.profiler`


# ------------------------------------------------------------ arrays
def chunk_of(array):
    """Returns the memory of an array, which its views share."""
    return array.chunk


def buffer_of(array):
    """Returns the JAX array that holds an array's values, in the layout that it has."""
    return array.chunk.read()


def address_of(array):
    """Returns the address of an array's values."""
    return buffer_of(array).unsafe_buffer_pointer()


# ------------------------------------------------------------ graphs and programs
def outputs_of(symbol):
    """Returns the (node, number) pairs of a symbol's outputs."""
    return symbol._outputs


def lowered(symbol):
    """Returns the plan by which a symbol is computed."""
    return Lowered(symbol._outputs)


def loops_of(graph):
    """Returns the loops that a plan has made of repetitions."""
    return [part.loop for part in graph._rolled() if part.loop]


def stretches_of(graph):
    """Returns the stretches of a plan, in each of which the backward computes all values again or none."""
    return graph._stretches()


def shared_forms(block):
    """Returns the forms of a hybridized block's graph, which it shares with graphs that are alike."""
    return block._cached_op._forms


def forget_operator(name):
    """Removes an operator that a test has defined."""
    registry._REGISTRY.pop(name, None)


def graph_of(block):
    """Returns the symbol that a hybridized block has become."""
    return block._cached_graph[1]


def recomputes(block):
    """Returns whether the backward computes a block's values again, as `hybridize(remat=True)` asks."""
    return block._again


def runs_of(traced):
    """Returns the programs that a traced function runs, one after the other."""
    return [part.run for parts in traced._parts.values() for part in parts._parts]


def calls_of(program):
    """Returns a compiled function's executables by the signatures of their calls."""
    return program._calls


def forms_of(program):
    """Returns the ways in which XLA compiles a function, by device and effort."""
    return program.xla._forms


def derived_of(program):
    """Returns what a function keeps of values that it derives from weights."""
    return program.xla._derived


def holds_derived(derived):
    """Returns whether values that were derived from weights are still kept."""
    return derived.kept is not None


def inputs_of(program):
    """Returns the names of a program's inputs."""
    return program._names


def has_programs(function):
    """Returns whether XLA has compiled anything of a function of `jax.jit`."""
    return function._cache_size() > 0


def forget_calls(rewriter):
    """Has a module of `mxjax.passes` make its equations anew."""
    rewriter.equation_of.cache_clear()


def numbers_there():
    """Returns the numbers that are kept on accelerators."""
    return arguments._there


def forget_numbers():
    """Forgets the numbers that are kept on accelerators, and those that came once."""
    arguments._there.clear()
    arguments._once.clear()


def traced_programs():
    """Returns the programs that recorded steps have become in this process."""
    return trace._programs.made


def replays_of(step):
    """Returns the steps that a `TrainStep` has seen twice and repeats as one call."""
    return [replay for replay in step._replays.values() if replay is not None]


def forget_replays(step):
    """Makes a `TrainStep` run its next steps in full."""
    step._replays.clear()


def rounds_begun():
    """Returns the number of rounds, such as steps of a training, that have begun in this process."""
    return policy._rounds.count


# ------------------------------------------------------------ training
def has_values(param):
    """Returns whether a parameter has been given memory."""
    return param._data is not None


def is_hybridized(block):
    """Returns whether `hybridize` is in force for a block."""
    return block._active


def updater_of(trainer):
    """Returns the updater of a trainer's first device, of a store or of a module."""
    return trainer._updaters[0] if hasattr(trainer, "_updaters") else trainer._updater


def states_of(trainer):
    """Returns a trainer's optimizer states by the index of their parameters."""
    return updater_of(trainer).states


def state_arrays_of(trainer, param):
    """Returns the arrays of a parameter's optimizer state."""
    return arrays(states_of(trainer).get(trainer._param2idx[param.name]))


def updates_together(updater):
    """Returns whether an updater's last call was one program for all weights."""
    return updater.prepared.together


def kinds_of_steps(optimizer):
    """Returns the kinds of steps that an optimizer has seen, and the number of steps by NumPy for each."""
    return optimizer._kinds_of_steps


def first_steps_of(optimizer):
    """Returns the number of steps that NumPy computes before XLA does."""
    return policy._first(optimizer.begin_num_update, kinds_of_steps(optimizer))


def scaler_of(trainer):
    """Returns the loss scaler that `amp.init_trainer` gave to a trainer."""
    return trainer._amp_loss_scaler


def set_scale(scaler, scale, steps):
    """Gives a loss scaler a scale and the number of its last steps without overflow."""
    scaler._loss_scale = scaler._next_loss_scale = scale
    scaler._unskipped = steps


def end_amp():
    """Switches automatic mixed precision off, as in a process that has never used it."""
    _policy.uninstall()
    amp._state.update(scaler=None, used=False)


def change_updates(optimizer, change):
    """Passes the name and the options of the operator that updates a weight through a function each time."""
    plain = optimizer._operator
    optimizer._operator = lambda weight, state: change(*plain(weight, state))


def has_begun(step):
    """Returns whether a `TrainStep` has placed its parameters."""
    return step._begun


def begin(step, *inputs):
    """Gives a `TrainStep` its parameters and states, as its first call does."""
    step._initialize(inputs)


def trainer_of(step):
    """Returns the trainer of a `TrainStep`."""
    return step._trainer


def executors_of(module):
    """Returns the executors of a module, with their arrays."""
    return module._exec_group


# ------------------------------------------------------------ stores
def values_of(store):
    """Returns the values that a store keeps, by key."""
    return store._values


def shards_of(store, key):
    """Returns (server, first row, end) of the parts in which servers keep a value."""
    return store._shards(key)


def collectives_of(store):
    """Returns what a synchronous store computes together with the other workers."""
    return store._workers


def compression_of(store):
    """Returns the compression of gradients that a store was given, or None."""
    return store._wire


# ------------------------------------------------------------ processes
def pool_of(loader):
    """Returns the worker processes of a `DataLoader`, as a pool."""
    return loader._worker_pool


def workers_of(pool):
    """Returns the worker processes of a pool, or the worker threads of an engine."""
    return pool._workers


def decoders_of(batches):
    """Returns the worker processes of an iterator over records, as a pool, or None."""
    return batches.handle._processes


def decodes_by_processes(batches):
    """Returns whether processes decode an iterator's records; starts them where that is worth while."""
    handle = batches.handle
    return handle._reader.submit(handle._started).result()


def rooms_of(batches):
    """Returns the memory of earlier batches, which an iterator over records uses again."""
    return batches.handle._rooms


def read_ahead(batches):
    """Returns the batches that an iterator over records reads ahead, as futures."""
    return batches.handle._ahead


def forgotten(pool):
    """Returns the numbers of results that a pool keeps and of those that nobody wants any more."""
    return len(pool._done), len(pool._dropped)


def channel_of(peer):
    """Returns the connection of a server, a worker or a client."""
    return peer._channel


def is_retained(array):
    """Returns whether a training step retains an array's value, so that the array itself shows none."""
    return type(chunk_of(array).stash) is Retained


# ------------------------------------------------------------ files
def read_mnist(folder, name):
    """Reads a file of pictures as the data set of handwritten digits does, once it has been downloaded."""
    data = datasets.MNIST.__new__(datasets.MNIST)
    data._root = folder
    data._read((name, ""), 16)
