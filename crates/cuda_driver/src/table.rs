//! The table of driver functions.
//!
//! A row is a function's name and arguments. From it come the exported C function (`exports.rs`),
//! the lookup of the real driver's symbol (`symbols.rs`), and the call of the emulated function of
//! the same name in `emulated/<topic>.rs` (for a topic `[foreign::name]`, in
//! `emulated/foreign/name.rs`). A function of the topic `unsupported` returns
//! `CUDA_ERROR_NOT_SUPPORTED` on the emulator. The front itself implements the functions of the
//! topics `before_init` and `entry_point`, which also work before `cuInit`. `=> path` names a
//! function that calls the real driver in place of the plain forward.

/// Calls the macro `$each` with all rows of the table.
macro_rules! for_each_driver_function {
    ($each:ident) => {
        $each! {
            before_init {
                cuInit(flags: c_uint);
                cuGetErrorName(code: ResultCode, name: Out<*const c_char>);
                cuGetErrorString(code: ResultCode, meaning: Out<*const c_char>);
            }
            entry_point {
                cuDriverGetVersion(version: Out<c_int>);
                cuGetProcAddress(
                    symbol: In<c_char>,
                    function: Out<*mut c_void>,
                    version: c_int,
                    flags: c_ulonglong,
                );
                cuGetProcAddress_v2(
                    symbol: In<c_char>,
                    function: Out<*mut c_void>,
                    version: c_int,
                    flags: c_ulonglong,
                    status: Out<c_int>,
                );
                cuGetExportTable(table: Out<*const c_void>, id: In<CUuuid>);
            }
            device {
                cuDeviceGet(device: Out<CUdevice>, ordinal: c_int);
                cuDeviceGetCount(count: Out<c_int>);
                cuDeviceGetName(name: Out<c_char>, len: c_int, device: CUdevice);
                cuDeviceGetUuid(uuid: Out<CUuuid>, device: CUdevice);
                cuDeviceGetUuid_v2(uuid: Out<CUuuid>, device: CUdevice);
                cuDeviceTotalMem_v2(bytes: Out<usize>, device: CUdevice);
                cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: CUdevice);
                cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: CUdevice);
                cuDeviceGetPCIBusId(text: Out<c_char>, len: c_int, device: CUdevice);
                cuDeviceGetByPCIBusId(device: Out<CUdevice>, text: In<c_char>);
                cuDeviceGetTexture1DLinearMaxWidth(
                    width: Out<usize>,
                    format: c_uint,
                    channels: c_uint,
                    device: CUdevice,
                );
                cuDeviceGetExecAffinitySupport(answer: Out<c_int>, kind: c_int, device: CUdevice);
                cuDeviceGetProperties(properties: Out<[c_int; 14]>, device: CUdevice);
                cuProfilerStart();
                cuProfilerStop();
            }
            context {
                cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: CUdevice);
                cuDevicePrimaryCtxRelease_v2(device: CUdevice);
                cuDevicePrimaryCtxReset_v2(device: CUdevice);
                cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
                cuDevicePrimaryCtxGetState(
                    device: CUdevice,
                    flags: Out<c_uint>,
                    active: Out<c_int>,
                );
                cuCtxCreate_v2(context: Out<CUcontext>, flags: c_uint, device: CUdevice);
                cuCtxCreate_v3(
                    context: Out<CUcontext>,
                    affinity: In<c_void>,
                    n_affinities: c_int,
                    flags: c_uint,
                    device: CUdevice,
                );
                cuCtxCreate_v4(
                    context: Out<CUcontext>,
                    params: In<ContextParams>,
                    flags: c_uint,
                    device: CUdevice,
                );
                cuCtxDestroy_v2(context: CUcontext);
                cuCtxPushCurrent_v2(context: CUcontext);
                cuCtxPopCurrent_v2(context: Out<CUcontext>);
                cuCtxSetCurrent(context: CUcontext);
                cuCtxGetCurrent(context: Out<CUcontext>);
                cuCtxGetDevice(device: Out<CUdevice>);
                cuCtxGetFlags(flags: Out<c_uint>);
                cuCtxGetApiVersion(context: CUcontext, version: Out<c_uint>);
                cuCtxGetCacheConfig(config: Out<c_int>);
                cuCtxSetCacheConfig(config: c_int);
                cuCtxGetSharedMemConfig(config: Out<c_int>);
                cuCtxSetSharedMemConfig(config: c_int);
                cuCtxGetLimit(value: Out<usize>, limit: c_int);
                cuCtxSetLimit(limit: c_int, value: usize);
                cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>);
                cuCtxSynchronize();
                cuCtxGetId(context: CUcontext, id: Out<u64>);
                cuCtxSetFlags(flags: c_uint);
                cuCtxResetPersistingL2Cache();
                cuCtxGetExecAffinity(affinity: Out<[c_uint; 2]>, kind: c_int);
            }
            peer {
                cuDeviceCanAccessPeer(can: Out<c_int>, device: CUdevice, peer: CUdevice);
                cuDeviceGetP2PAttribute(
                    value: Out<c_int>,
                    attribute: c_int,
                    from: CUdevice,
                    to: CUdevice,
                );
                cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint);
                cuCtxDisablePeerAccess(peer: CUcontext);
            }
            module {
                cuModuleLoad(module: Out<CUmodule>, path: In<c_char>);
                cuModuleLoadData(module: Out<CUmodule>, image: HostPtr) => real::module::load_data;
                cuModuleLoadDataEx(
                    module: Out<CUmodule>,
                    image: HostPtr,
                    n_options: c_uint,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                ) => real::module::load_data_ex;
                cuModuleLoadFatBinary(module: Out<CUmodule>, image: HostPtr);
                cuModuleUnload(module: CUmodule);
                cuModuleGetFunction(function: Out<CUfunction>, module: CUmodule, name: In<c_char>);
                cuModuleGetGlobal_v2(
                    address: Out<CUdeviceptr>,
                    bytes: Out<usize>,
                    module: CUmodule,
                    name: In<c_char>,
                );
                cuModuleGetLoadingMode(mode: Out<c_int>);
                cuModuleGetFunctionCount(count: Out<c_uint>, module: CUmodule);
                cuModuleEnumerateFunctions(
                    functions: Out<CUfunction>,
                    room: c_uint,
                    module: CUmodule,
                );
            }
            library {
                cuLibraryLoadData(
                    library: Out<CUlibrary>,
                    image: HostPtr,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                    n_options: c_uint,
                    library_options: In<c_int>,
                    library_values: In<*mut c_void>,
                    n_library_options: c_uint,
                );
                cuLibraryUnload(library: CUlibrary);
                cuLibraryGetModule(module: Out<CUmodule>, library: CUlibrary);
            }
            function {
                cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: CUfunction);
                cuFuncSetAttribute(function: CUfunction, attribute: c_int, value: c_int);
                cuFuncSetCacheConfig(function: CUfunction, config: c_int);
                cuFuncSetSharedMemConfig(function: CUfunction, config: c_int);
                cuFuncGetModule(module: Out<CUmodule>, function: CUfunction);
                cuFuncGetName(name: Out<*const c_char>, function: CUfunction);
                cuFuncGetParamInfo(
                    function: CUfunction,
                    index: usize,
                    offset: Out<usize>,
                    bytes: Out<usize>,
                );
                cuFuncIsLoaded(state: Out<c_int>, function: CUfunction);
                cuFuncLoad(function: CUfunction);
            }
            occupancy {
                cuOccupancyMaxActiveClusters(
                    n_clusters: Out<c_int>,
                    function: CUfunction,
                    config: In<CUlaunchConfig>,
                );
                cuOccupancyMaxPotentialClusterSize(
                    n_blocks: Out<c_int>,
                    function: CUfunction,
                    config: In<CUlaunchConfig>,
                );
                cuOccupancyAvailableDynamicSMemPerBlock(
                    bytes: Out<usize>,
                    function: CUfunction,
                    n_blocks: c_int,
                    block_size: c_int,
                );
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    n_blocks: Out<c_int>,
                    function: CUfunction,
                    block_size: c_int,
                    shared_mem_bytes: usize,
                );
                cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                    n_blocks: Out<c_int>,
                    function: CUfunction,
                    block_size: c_int,
                    shared_mem_bytes: usize,
                    flags: c_uint,
                );
                cuOccupancyMaxPotentialBlockSize(
                    min_grid_size: Out<c_int>,
                    block_size: Out<c_int>,
                    function: CUfunction,
                    shared_mem_of: CUoccupancyB2DSize,
                    shared_mem_bytes: usize,
                    block_size_limit: c_int,
                );
                cuOccupancyMaxPotentialBlockSizeWithFlags(
                    min_grid_size: Out<c_int>,
                    block_size: Out<c_int>,
                    function: CUfunction,
                    shared_mem_of: CUoccupancyB2DSize,
                    shared_mem_bytes: usize,
                    block_size_limit: c_int,
                    flags: c_uint,
                );
            }
            memory {
                cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>);
                cuMemAlloc_v2(address: Out<CUdeviceptr>, bytes: usize);
                cuMemAllocPitch_v2(
                    address: Out<CUdeviceptr>,
                    pitch: Out<usize>,
                    width_bytes: usize,
                    height: usize,
                    element_bytes: c_uint,
                );
                cuMemAllocManaged(address: Out<CUdeviceptr>, bytes: usize, flags: c_uint);
                cuMemFree_v2(address: CUdeviceptr);
                cuMemAllocAsync(address: Out<CUdeviceptr>, bytes: usize, stream: CUstream);
                cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
                cuMemAllocFromPoolAsync(
                    address: Out<CUdeviceptr>,
                    bytes: usize,
                    pool: CUmemoryPool,
                    stream: CUstream,
                );
                cuMemAllocHost_v2(pointer: Out<*mut c_void>, bytes: usize);
                cuMemFreeHost(pointer: HostPtr);
                cuMemHostAlloc(pointer: Out<*mut c_void>, bytes: usize, flags: c_uint);
                cuMemHostRegister_v2(pointer: HostPtr, bytes: usize, flags: c_uint);
                cuMemHostUnregister(pointer: HostPtr);
                cuMemHostGetDevicePointer_v2(
                    address: Out<CUdeviceptr>,
                    pointer: HostPtr,
                    flags: c_uint,
                );
                cuMemHostGetFlags(flags: Out<c_uint>, pointer: HostPtr);
                cuMemGetAddressRange_v2(
                    base: Out<CUdeviceptr>,
                    bytes: Out<usize>,
                    address: CUdeviceptr,
                );
            }
            pool {
                cuDeviceGetDefaultMemPool(pool: Out<CUmemoryPool>, device: CUdevice);
                cuDeviceGetMemPool(pool: Out<CUmemoryPool>, device: CUdevice);
                cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool);
                cuMemPoolCreate(pool: Out<CUmemoryPool>, props: In<PoolProps>);
                cuMemPoolDestroy(pool: CUmemoryPool);
                cuMemPoolTrimTo(pool: CUmemoryPool, keep_bytes: usize);
                cuMemPoolGetAttribute(pool: CUmemoryPool, id: c_int, value: Out<c_void>);
                cuMemPoolSetAttribute(pool: CUmemoryPool, id: c_int, value: In<c_void>);
                cuMemPoolSetAccess(pool: CUmemoryPool, list: In<MemAccess>, count: usize);
                cuMemPoolGetAccess(flags: Out<c_int>, pool: CUmemoryPool, location: In<MemLocation>);
                cuDeviceGetGraphMemAttribute(device: CUdevice, id: c_int, value: Out<c_void>);
                cuDeviceSetGraphMemAttribute(device: CUdevice, id: c_int, value: In<c_void>);
                cuDeviceGraphMemTrim(device: CUdevice);
            }
            pointer {
                cuPointerGetAttribute(value: Out<c_void>, attribute: c_int, address: CUdeviceptr);
                cuPointerGetAttributes(
                    count: c_uint,
                    attributes: In<c_int>,
                    values: In<Out<c_void>>,
                    address: CUdeviceptr,
                );
                cuPointerSetAttribute(value: In<c_void>, attribute: c_int, address: CUdeviceptr);
            }
            tensor {
                cuTensorMapEncodeTiled(
                    map: Out<CUtensorMap>,
                    element: c_uint,
                    rank: c_uint,
                    address: HostPtr,
                    dims: In<u64>,
                    strides: In<u64>,
                    box_dims: In<u32>,
                    element_strides: In<u32>,
                    interleave: c_uint,
                    swizzle: c_uint,
                    promotion: c_uint,
                    fill: c_uint,
                );
                cuTensorMapEncodeIm2col(
                    map: Out<CUtensorMap>,
                    element: c_uint,
                    rank: c_uint,
                    address: HostPtr,
                    dims: In<u64>,
                    strides: In<u64>,
                    lower_corner: In<c_int>,
                    upper_corner: In<c_int>,
                    channels_per_pixel: c_uint,
                    pixels_per_column: c_uint,
                    element_strides: In<u32>,
                    interleave: c_uint,
                    swizzle: c_uint,
                    promotion: c_uint,
                    fill: c_uint,
                );
                cuTensorMapEncodeIm2colWide(
                    map: Out<CUtensorMap>,
                    element: c_uint,
                    rank: c_uint,
                    address: HostPtr,
                    dims: In<u64>,
                    strides: In<u64>,
                    lower_corner_width: c_int,
                    upper_corner_width: c_int,
                    channels_per_pixel: c_uint,
                    pixels_per_column: c_uint,
                    element_strides: In<u32>,
                    interleave: c_uint,
                    mode: c_uint,
                    swizzle: c_uint,
                    promotion: c_uint,
                    fill: c_uint,
                );
                cuTensorMapReplaceAddress(map: Out<CUtensorMap>, address: HostPtr);
            }
            managed {
                cuMemRangeGetAttribute(
                    value: Out<c_void>,
                    value_bytes: usize,
                    attribute: c_int,
                    address: CUdeviceptr,
                    bytes: usize,
                );
                cuMemRangeGetAttributes(
                    values: In<Out<c_void>>,
                    sizes: In<usize>,
                    attributes: In<c_int>,
                    count: usize,
                    address: CUdeviceptr,
                    bytes: usize,
                );
                cuStreamAttachMemAsync(
                    stream: CUstream,
                    address: CUdeviceptr,
                    bytes: usize,
                    flags: c_uint,
                );
                cuMemAdvise(address: CUdeviceptr, bytes: usize, advice: c_int, device: CUdevice);
                cuMemAdvise_v2(
                    address: CUdeviceptr,
                    bytes: usize,
                    advice: c_int,
                    location: MemLocation,
                );
                cuMemPrefetchAsync_v2(
                    address: CUdeviceptr,
                    bytes: usize,
                    location: MemLocation,
                    flags: c_uint,
                    stream: CUstream,
                );
                cuMemPrefetchAsync(
                    address: CUdeviceptr,
                    bytes: usize,
                    device: CUdevice,
                    stream: CUstream,
                );
            }
            copy {
                cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
                cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
                cuMemcpyHtoD_v2(dst: CUdeviceptr, src: HostPtr, bytes: usize);
                cuMemcpyHtoDAsync_v2(
                    dst: CUdeviceptr,
                    src: HostPtr,
                    bytes: usize,
                    stream: CUstream,
                );
                cuMemcpyDtoH_v2(dst: HostPtr, src: CUdeviceptr, bytes: usize);
                cuMemcpyDtoHAsync_v2(
                    dst: HostPtr,
                    src: CUdeviceptr,
                    bytes: usize,
                    stream: CUstream,
                );
                cuMemcpyDtoD_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize);
                cuMemcpyDtoDAsync_v2(
                    dst: CUdeviceptr,
                    src: CUdeviceptr,
                    bytes: usize,
                    stream: CUstream,
                );
                cuMemcpyPeer(
                    dst: CUdeviceptr,
                    dst_context: CUcontext,
                    src: CUdeviceptr,
                    src_context: CUcontext,
                    bytes: usize,
                );
                cuMemcpyPeerAsync(
                    dst: CUdeviceptr,
                    dst_context: CUcontext,
                    src: CUdeviceptr,
                    src_context: CUcontext,
                    bytes: usize,
                    stream: CUstream,
                );
            }
            copy_pitched {
                cuMemcpy2D_v2(copy: In<Copy2D>);
                cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: CUstream);
            }
            memset {
                cuMemsetD8_v2(dst: CUdeviceptr, value: u8, count: usize);
                cuMemsetD16_v2(dst: CUdeviceptr, value: u16, count: usize);
                cuMemsetD32_v2(dst: CUdeviceptr, value: u32, count: usize);
                cuMemsetD8Async(dst: CUdeviceptr, value: u8, count: usize, stream: CUstream);
                cuMemsetD16Async(dst: CUdeviceptr, value: u16, count: usize, stream: CUstream);
                cuMemsetD32Async(dst: CUdeviceptr, value: u32, count: usize, stream: CUstream);
                cuMemsetD2D8_v2(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u8,
                    width: usize,
                    height: usize,
                );
                cuMemsetD2D16_v2(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u16,
                    width: usize,
                    height: usize,
                );
                cuMemsetD2D32_v2(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u32,
                    width: usize,
                    height: usize,
                );
                cuMemsetD2D8Async(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u8,
                    width: usize,
                    height: usize,
                    stream: CUstream,
                );
                cuMemsetD2D16Async(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u16,
                    width: usize,
                    height: usize,
                    stream: CUstream,
                );
                cuMemsetD2D32Async(
                    dst: CUdeviceptr,
                    pitch: usize,
                    value: u32,
                    width: usize,
                    height: usize,
                    stream: CUstream,
                );
            }
            stream {
                cuStreamCreate(stream: Out<CUstream>, flags: c_uint);
                cuStreamCreateWithPriority(stream: Out<CUstream>, flags: c_uint, priority: c_int);
                cuStreamDestroy_v2(stream: CUstream);
                cuStreamGetFlags(stream: CUstream, flags: Out<c_uint>);
                cuStreamGetPriority(stream: CUstream, priority: Out<c_int>);
                cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>);
                cuStreamGetCtx_v2(stream: CUstream, context: Out<CUcontext>, green: Out<CUobject>);
                cuStreamGetId(stream: CUstream, id: Out<u64>);
                cuStreamGetDevice(stream: CUstream, device: Out<CUdevice>);
                cuStreamQuery(stream: CUstream);
                cuStreamSynchronize(stream: CUstream);
            }
            stream_memops {
                cuStreamWaitValue32_v2(
                    stream: CUstream,
                    address: CUdeviceptr,
                    value: u32,
                    flags: c_uint,
                );
                cuStreamWaitValue64_v2(
                    stream: CUstream,
                    address: CUdeviceptr,
                    value: u64,
                    flags: c_uint,
                );
                cuStreamWriteValue32_v2(
                    stream: CUstream,
                    address: CUdeviceptr,
                    value: u32,
                    flags: c_uint,
                );
                cuStreamWriteValue64_v2(
                    stream: CUstream,
                    address: CUdeviceptr,
                    value: u64,
                    flags: c_uint,
                );
                cuStreamBatchMemOp_v2(
                    stream: CUstream,
                    count: c_uint,
                    ops: In<StreamMemOp>,
                    flags: c_uint,
                );
            }
            capturing {
                cuStreamBeginCapture(stream: CUstream);
                cuStreamBeginCapture_v2(stream: CUstream, mode: c_int);
                cuStreamBeginCaptureToGraph(
                    stream: CUstream,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    edges: In<u64>,
                    n_dependencies: usize,
                    mode: c_int,
                );
                cuStreamEndCapture(stream: CUstream, graph: Out<CUgraph>);
                cuStreamIsCapturing(stream: CUstream, answer: Out<c_int>);
                cuStreamGetCaptureInfo(stream: CUstream, answer: Out<c_int>, id: Out<u64>);
                cuStreamGetCaptureInfo_v2(
                    stream: CUstream,
                    answer: Out<c_int>,
                    id: Out<u64>,
                    graph: Out<CUgraph>,
                    dependencies: Out<*const CUgraphNode>,
                    n_dependencies: Out<usize>,
                );
                cuStreamGetCaptureInfo_v3(
                    stream: CUstream,
                    answer: Out<c_int>,
                    id: Out<u64>,
                    graph: Out<CUgraph>,
                    dependencies: Out<*const CUgraphNode>,
                    edges: Out<*const u64>,
                    n_dependencies: Out<usize>,
                );
                cuStreamUpdateCaptureDependencies(
                    stream: CUstream,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    flags: c_uint,
                );
                cuStreamUpdateCaptureDependencies_v2(
                    stream: CUstream,
                    dependencies: In<CUgraphNode>,
                    edges: In<u64>,
                    n_dependencies: usize,
                    flags: c_uint,
                );
                cuThreadExchangeStreamCaptureMode(mode: Out<c_int>);
            }
            callback {
                cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: HostPtr);
                cuStreamAddCallback(
                    stream: CUstream,
                    callback: CUstreamCallback,
                    data: HostPtr,
                    flags: c_uint,
                );
            }
            event {
                cuEventCreate(event: Out<CUevent>, flags: c_uint);
                cuEventDestroy_v2(event: CUevent);
                cuEventRecord(event: CUevent, stream: CUstream);
                cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: c_uint);
                cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
                cuEventQuery(event: CUevent);
                cuEventSynchronize(event: CUevent);
                cuEventElapsedTime(milliseconds: Out<f32>, start: CUevent, end: CUevent);
                cuEventElapsedTime_v2(milliseconds: Out<f32>, start: CUevent, end: CUevent);
                cuCtxRecordEvent(context: CUcontext, event: CUevent);
                cuCtxWaitEvent(context: CUcontext, event: CUevent);
            }
            launch {
                cuLaunchKernel(
                    function: CUfunction,
                    grid_x: c_uint,
                    grid_y: c_uint,
                    grid_z: c_uint,
                    block_x: c_uint,
                    block_y: c_uint,
                    block_z: c_uint,
                    shared_mem_bytes: c_uint,
                    stream: CUstream,
                    params: In<HostPtr>,
                    extra: In<HostPtr>,
                );
                cuLaunchCooperativeKernel(
                    function: CUfunction,
                    grid_x: c_uint,
                    grid_y: c_uint,
                    grid_z: c_uint,
                    block_x: c_uint,
                    block_y: c_uint,
                    block_z: c_uint,
                    shared_mem_bytes: c_uint,
                    stream: CUstream,
                    params: In<HostPtr>,
                );
                cuLaunchKernelEx(
                    config: In<CUlaunchConfig>,
                    function: CUfunction,
                    params: In<HostPtr>,
                    extra: In<HostPtr>,
                );
            }
            graph_topology {
                cuGraphCreate(graph: Out<CUgraph>, flags: c_uint);
                cuGraphDestroy(graph: CUgraph);
                cuGraphGetNodes(graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>);
            }
            graph_nodes {
                cuGraphAddKernelNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<KernelNodeParams>,
                );
                cuGraphAddMemcpyNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<Copy3D>,
                    context: CUcontext,
                );
                cuGraphAddMemsetNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<MemsetNodeParams>,
                    context: CUcontext,
                );
                cuGraphAddHostNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<HostNodeParams>,
                );
                cuGraphAddChildGraphNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    inner: CUgraph,
                );
                cuGraphAddEmptyNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                );
                cuGraphKernelNodeGetParams(node: CUgraphNode, params: Out<KernelNodeParams>);
                cuGraphKernelNodeSetAttribute(
                    node: CUgraphNode,
                    id: c_uint,
                    value: In<AttributeValue>,
                );
            }
            graph_exec {
                cuGraphInstantiateWithFlags(
                    exec: Out<CUgraphExec>,
                    graph: CUgraph,
                    flags: c_ulonglong,
                );
                cuGraphInstantiate_v2(
                    exec: Out<CUgraphExec>,
                    graph: CUgraph,
                    error_node: Out<CUgraphNode>,
                    log: Out<c_char>,
                    log_bytes: usize,
                );
                cuGraphInstantiateWithParams(
                    exec: Out<CUgraphExec>,
                    graph: CUgraph,
                    params: Out<InstantiateParams>,
                );
                cuGraphExecGetFlags(exec: CUgraphExec, flags: Out<u64>);
                cuGraphExecDestroy(exec: CUgraphExec);
                cuGraphUpload(exec: CUgraphExec, stream: CUstream);
                cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
                cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint);
                cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: Out<c_uint>);
                cuGraphExecUpdate(
                    exec: CUgraphExec,
                    graph: CUgraph,
                    error_node: Out<CUgraphNode>,
                    result: Out<c_int>,
                );
                cuGraphExecUpdate_v2(exec: CUgraphExec, graph: CUgraph, result: Out<UpdateResult>);
            }
            graph_exec_nodes {
                cuGraphExecKernelNodeSetParams(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<KernelNodeParams>,
                );
                cuGraphExecMemcpyNodeSetParams(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<Copy3D>,
                    context: CUcontext,
                );
                cuGraphExecMemsetNodeSetParams(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<MemsetNodeParams>,
                    context: CUcontext,
                );
                cuGraphExecChildGraphNodeSetParams(exec: CUgraphExec, node: CUgraphNode, inner: CUgraph);
            }
            [foreign::library] {
                cuLibraryLoadFromFile(
                    library: Out<CUlibrary>,
                    path: In<c_char>,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                    n_options: c_uint,
                    library_options: In<c_int>,
                    library_values: In<*mut c_void>,
                    n_library_options: c_uint,
                );
                cuLibraryGetKernel(kernel: Out<CUkernel>, library: CUlibrary, name: In<c_char>);
                cuLibraryGetKernelCount(count: Out<c_uint>, library: CUlibrary);
                cuLibraryEnumerateKernels(kernels: Out<CUkernel>, room: c_uint, library: CUlibrary);
                cuLibraryGetGlobal(
                    address: Out<CUdeviceptr>,
                    bytes: Out<usize>,
                    library: CUlibrary,
                    name: In<c_char>,
                );
                cuLibraryGetManaged(
                    address: Out<CUdeviceptr>,
                    bytes: Out<usize>,
                    library: CUlibrary,
                    name: In<c_char>,
                );
                cuLibraryGetUnifiedFunction(
                    function: Out<*mut c_void>,
                    library: CUlibrary,
                    name: In<c_char>,
                );
                cuKernelGetFunction(function: Out<CUfunction>, kernel: CUkernel);
                cuKernelGetLibrary(library: Out<CUlibrary>, kernel: CUkernel);
                cuKernelGetName(name: Out<*const c_char>, kernel: CUkernel);
                cuKernelGetParamInfo(
                    kernel: CUkernel,
                    index: usize,
                    offset: Out<usize>,
                    bytes: Out<usize>,
                );
                cuKernelGetAttribute(
                    value: Out<c_int>,
                    attribute: c_int,
                    kernel: CUkernel,
                    device: CUdevice,
                );
                cuKernelSetAttribute(
                    attribute: c_int,
                    value: c_int,
                    kernel: CUkernel,
                    device: CUdevice,
                );
                cuKernelSetCacheConfig(kernel: CUkernel, config: c_int, device: CUdevice);
            }
            [foreign::link] {
                cuLinkCreate_v2(
                    n_options: c_uint,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                    state: Out<CUlinkState>,
                );
                cuLinkAddData_v2(
                    state: CUlinkState,
                    kind: c_int,
                    data: HostPtr,
                    len: usize,
                    name: In<c_char>,
                    n_options: c_uint,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                ) => real::module::link_add_data;
                cuLinkAddFile_v2(
                    state: CUlinkState,
                    kind: c_int,
                    path: In<c_char>,
                    n_options: c_uint,
                    options: In<c_int>,
                    values: Out<*mut c_void>,
                );
                cuLinkComplete(state: CUlinkState, image: Out<*mut c_void>, len: Out<usize>);
                cuLinkDestroy(state: CUlinkState);
            }
            [foreign::virtual_memory] {
                cuMemAddressReserve(
                    address: Out<CUdeviceptr>,
                    bytes: usize,
                    align: usize,
                    hint: CUdeviceptr,
                    flags: u64,
                );
                cuMemAddressFree(address: CUdeviceptr, bytes: usize);
                cuMemCreate(handle: Out<u64>, bytes: usize, prop: In<AllocationProp>, flags: u64);
                cuMemRelease(handle: u64);
                cuMemRetainAllocationHandle(handle: Out<u64>, address: HostPtr);
                cuMemGetAllocationPropertiesFromHandle(prop: Out<AllocationProp>, handle: u64);
                cuMemGetAllocationGranularity(
                    bytes: Out<usize>,
                    prop: In<AllocationProp>,
                    option: c_int,
                );
                cuMemMap(
                    address: CUdeviceptr,
                    bytes: usize,
                    offset: usize,
                    handle: u64,
                    flags: u64,
                );
                cuMemUnmap(address: CUdeviceptr, bytes: usize);
                cuMemSetAccess(
                    address: CUdeviceptr,
                    bytes: usize,
                    list: In<MemAccess>,
                    count: usize,
                );
                cuMemGetAccess(flags: Out<u64>, location: In<MemLocation>, address: CUdeviceptr);
            }
            [foreign::copy_pitched] {
                cuMemcpy2DUnaligned_v2(copy: In<Copy2D>);
                cuMemcpy3D_v2(copy: In<Copy3D>);
                cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: CUstream);
                cuMemcpy3DPeer(copy: In<Copy3D>);
                cuMemcpy3DPeerAsync(copy: In<Copy3D>, stream: CUstream);
            }
            [foreign::array] {
                cuArrayCreate_v2(array: Out<CUarray>, descriptor: In<ArrayDescriptor>);
                cuArray3DCreate_v2(array: Out<CUarray>, descriptor: In<Array3DDescriptor>);
                cuArrayGetDescriptor_v2(descriptor: Out<ArrayDescriptor>, array: CUarray);
                cuArray3DGetDescriptor_v2(descriptor: Out<Array3DDescriptor>, array: CUarray);
                cuArrayDestroy(array: CUarray);
                cuMemcpyAtoH_v2(dst: HostPtr, src: CUarray, offset: usize, bytes: usize);
                cuMemcpyHtoA_v2(dst: CUarray, offset: usize, src: HostPtr, bytes: usize);
                cuMemcpyAtoHAsync_v2(
                    dst: HostPtr,
                    src: CUarray,
                    offset: usize,
                    bytes: usize,
                    stream: CUstream,
                );
                cuMemcpyHtoAAsync_v2(
                    dst: CUarray,
                    offset: usize,
                    src: HostPtr,
                    bytes: usize,
                    stream: CUstream,
                );
                cuMemcpyAtoD_v2(dst: CUdeviceptr, src: CUarray, offset: usize, bytes: usize);
                cuMemcpyDtoA_v2(dst: CUarray, offset: usize, src: CUdeviceptr, bytes: usize);
                cuMemcpyAtoA_v2(
                    dst: CUarray,
                    dst_offset: usize,
                    src: CUarray,
                    src_offset: usize,
                    bytes: usize,
                );
            }
            [foreign::stream_attributes] {
                cuStreamGetAttribute(stream: CUstream, id: c_int, value: Out<AttributeValue>);
                cuStreamSetAttribute(stream: CUstream, id: c_int, value: In<AttributeValue>);
                cuStreamCopyAttributes(to: CUstream, from: CUstream);
            }
            [foreign::graph_topology] {
                cuGraphClone(clone: Out<CUgraph>, original: CUgraph);
                cuGraphNodeFindInClone(node: Out<CUgraphNode>, original: CUgraphNode, clone: CUgraph);
                cuGraphNodeGetType(node: CUgraphNode, kind: Out<c_int>);
                cuGraphGetRootNodes(graph: CUgraph, nodes: Out<CUgraphNode>, count: Out<usize>);
                cuGraphGetEdges(
                    graph: CUgraph,
                    from: Out<CUgraphNode>,
                    to: Out<CUgraphNode>,
                    count: Out<usize>,
                );
                cuGraphGetEdges_v2(
                    graph: CUgraph,
                    from: Out<CUgraphNode>,
                    to: Out<CUgraphNode>,
                    data: Out<u64>,
                    count: Out<usize>,
                );
                cuGraphNodeGetDependencies(node: CUgraphNode, nodes: Out<CUgraphNode>, count: Out<usize>);
                cuGraphNodeGetDependencies_v2(
                    node: CUgraphNode,
                    nodes: Out<CUgraphNode>,
                    data: Out<u64>,
                    count: Out<usize>,
                );
                cuGraphNodeGetDependentNodes(
                    node: CUgraphNode,
                    nodes: Out<CUgraphNode>,
                    count: Out<usize>,
                );
                cuGraphNodeGetDependentNodes_v2(
                    node: CUgraphNode,
                    nodes: Out<CUgraphNode>,
                    data: Out<u64>,
                    count: Out<usize>,
                );
                cuGraphAddDependencies(
                    graph: CUgraph,
                    from: In<CUgraphNode>,
                    to: In<CUgraphNode>,
                    count: usize,
                );
                cuGraphAddDependencies_v2(
                    graph: CUgraph,
                    from: In<CUgraphNode>,
                    to: In<CUgraphNode>,
                    data: In<u64>,
                    count: usize,
                );
                cuGraphRemoveDependencies(
                    graph: CUgraph,
                    from: In<CUgraphNode>,
                    to: In<CUgraphNode>,
                    count: usize,
                );
                cuGraphRemoveDependencies_v2(
                    graph: CUgraph,
                    from: In<CUgraphNode>,
                    to: In<CUgraphNode>,
                    data: In<u64>,
                    count: usize,
                );
                cuGraphDestroyNode(node: CUgraphNode);
                cuGraphDebugDotPrint(graph: CUgraph, path: In<c_char>, flags: c_uint);
            }
            [foreign::graph_nodes] {
                cuGraphAddKernelNode_v2(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<KernelNodeParamsV2>,
                );
                cuGraphAddEventRecordNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    event: CUevent,
                );
                cuGraphAddEventWaitNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    event: CUevent,
                );
                cuGraphAddMemAllocNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: Out<MemAllocNodeParams>,
                );
                cuGraphAddMemFreeNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    address: CUdeviceptr,
                );
                cuGraphAddBatchMemOpNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: In<BatchMemOpNodeParams>,
                );
                cuGraphKernelNodeGetParams_v2(node: CUgraphNode, params: Out<KernelNodeParamsV2>);
                cuGraphKernelNodeSetParams(node: CUgraphNode, params: In<KernelNodeParams>);
                cuGraphKernelNodeSetParams_v2(node: CUgraphNode, params: In<KernelNodeParamsV2>);
                cuGraphKernelNodeGetAttribute(
                    node: CUgraphNode,
                    id: c_uint,
                    value: Out<AttributeValue>,
                );
                cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode);
                cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: Out<Copy3D>);
                cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: In<Copy3D>);
                cuGraphMemsetNodeGetParams(node: CUgraphNode, params: Out<MemsetNodeParams>);
                cuGraphMemsetNodeSetParams(node: CUgraphNode, params: In<MemsetNodeParams>);
                cuGraphHostNodeGetParams(node: CUgraphNode, params: Out<HostNodeParams>);
                cuGraphHostNodeSetParams(node: CUgraphNode, params: In<HostNodeParams>);
                cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: Out<CUgraph>);
                cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: Out<CUevent>);
                cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent);
                cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: Out<CUevent>);
                cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent);
                cuGraphMemAllocNodeGetParams(node: CUgraphNode, params: Out<MemAllocNodeParams>);
                cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: Out<CUdeviceptr>);
                cuGraphBatchMemOpNodeGetParams(node: CUgraphNode, params: Out<BatchMemOpNodeParams>);
                cuGraphBatchMemOpNodeSetParams(node: CUgraphNode, params: In<BatchMemOpNodeParams>);
            }
            [foreign::graph_exec_nodes] {
                cuGraphExecKernelNodeSetParams_v2(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<KernelNodeParamsV2>,
                );
                cuGraphExecHostNodeSetParams(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<HostNodeParams>,
                );
                cuGraphExecEventRecordNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent);
                cuGraphExecEventWaitNodeSetEvent(exec: CUgraphExec, node: CUgraphNode, event: CUevent);
                cuGraphExecBatchMemOpNodeSetParams(
                    exec: CUgraphExec,
                    node: CUgraphNode,
                    params: In<BatchMemOpNodeParams>,
                );
                cuGraphNodeSetParams(node: CUgraphNode, params: In<NodeParams>);
                cuGraphExecNodeSetParams(exec: CUgraphExec, node: CUgraphNode, params: In<NodeParams>);
                cuGraphAddNode(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    n_dependencies: usize,
                    params: Out<NodeParams>,
                );
                cuGraphAddNode_v2(
                    node: Out<CUgraphNode>,
                    graph: CUgraph,
                    dependencies: In<CUgraphNode>,
                    edges: In<u64>,
                    n_dependencies: usize,
                    params: Out<NodeParams>,
                );
            }
            [foreign::user_object] {
                cuUserObjectCreate(
                    object: Out<CUobject>,
                    data: HostPtr,
                    destroy: CUhostFn,
                    count: c_uint,
                    flags: c_uint,
                );
                cuUserObjectRetain(object: CUobject, count: c_uint);
                cuUserObjectRelease(object: CUobject, count: c_uint);
                cuGraphRetainUserObject(
                    graph: CUgraph,
                    object: CUobject,
                    count: c_uint,
                    flags: c_uint,
                );
                cuGraphReleaseUserObject(graph: CUgraph, object: CUobject, count: c_uint);
            }
            unsupported {
                cuDeviceGetLuid(luid: Out<c_char>, node_mask: Out<c_uint>, device: CUdevice);
                cuDeviceGetNvSciSyncAttributes(list: HostPtr, device: CUdevice, flags: c_int);
                cuFlushGPUDirectRDMAWrites(target: c_int, scope: c_int);
                cuIpcGetEventHandle(handle: Out<[u8; 64]>, event: CUevent);
                cuIpcGetMemHandle(handle: Out<IpcMemHandle>, address: CUdeviceptr);
                cuIpcOpenMemHandle_v2(
                    address: Out<CUdeviceptr>,
                    handle: IpcMemHandle,
                    flags: c_uint,
                );
                cuIpcCloseMemHandle(address: CUdeviceptr);
                cuMemExportToShareableHandle(
                    shareable: HostPtr,
                    handle: u64,
                    kind: c_int,
                    flags: u64,
                );
                cuMemImportFromShareableHandle(handle: Out<u64>, shareable: HostPtr, kind: c_int);
                cuMemGetHandleForAddressRange(
                    handle: HostPtr,
                    address: CUdeviceptr,
                    bytes: usize,
                    kind: c_int,
                    flags: u64,
                );
                cuMemPoolExportToShareableHandle(
                    handle: HostPtr,
                    pool: CUmemoryPool,
                    kind: c_int,
                    flags: u64,
                );
                cuMemPoolImportFromShareableHandle(
                    pool: Out<CUmemoryPool>,
                    handle: HostPtr,
                    kind: c_int,
                    flags: u64,
                );
                cuMemPoolExportPointer(data: Out<[u8; 64]>, address: CUdeviceptr);
                cuMemPoolImportPointer(
                    address: Out<CUdeviceptr>,
                    pool: CUmemoryPool,
                    data: In<[u8; 64]>,
                );
                cuImportExternalSemaphore(semaphore: Out<CUobject>, descriptor: In<c_void>);
                cuDestroyExternalSemaphore(semaphore: CUobject);
                cuExternalMemoryGetMappedMipmappedArray(
                    array: Out<CUarray>,
                    memory: CUobject,
                    descriptor: In<c_void>,
                );
                cuArrayGetSparseProperties(properties: Out<c_void>, array: CUarray);
                cuArrayGetPlane(plane: Out<CUarray>, array: CUarray, index: c_uint);
                cuMipmappedArrayCreate(
                    array: Out<CUarray>,
                    descriptor: In<Array3DDescriptor>,
                    n_levels: c_uint,
                );
                cuMipmappedArrayDestroy(array: CUarray);
                cuMipmappedArrayGetLevel(level: Out<CUarray>, array: CUarray, number: c_uint);
                cuMulticastCreate(handle: Out<u64>, prop: In<c_void>);
                cuMulticastAddDevice(handle: u64, device: CUdevice);
                cuMulticastGetGranularity(bytes: Out<usize>, prop: In<c_void>, option: c_int);
                cuMulticastUnbind(handle: u64, device: CUdevice, offset: usize, bytes: usize);
                cuGreenCtxCreate(
                    context: Out<CUobject>,
                    resource: CUobject,
                    device: CUdevice,
                    flags: c_uint,
                );
                cuGreenCtxDestroy(context: CUobject);
                cuCtxFromGreenCtx(context: Out<CUcontext>, green: CUobject);
                cuDeviceGetDevResource(device: CUdevice, resource: Out<c_void>, kind: c_int);
                cuCtxGetDevResource(context: CUcontext, resource: Out<c_void>, kind: c_int);
                cuCoredumpGetAttribute(attribute: c_int, value: Out<c_void>, bytes: Out<usize>);
                cuCoredumpGetAttributeGlobal(
                    attribute: c_int,
                    value: Out<c_void>,
                    bytes: Out<usize>,
                );
                cuCoredumpSetAttribute(attribute: c_int, value: HostPtr, bytes: Out<usize>);
                cuCoredumpSetAttributeGlobal(attribute: c_int, value: HostPtr, bytes: Out<usize>);
                cuGraphConditionalHandleCreate(
                    handle: Out<u64>,
                    graph: CUgraph,
                    context: CUcontext,
                    default: c_uint,
                    flags: c_uint,
                );
                cuImportExternalMemory(memory: Out<CUobject>, descriptor: In<c_void>);
                cuExternalMemoryGetMappedBuffer(
                    address: Out<CUdeviceptr>,
                    memory: CUobject,
                    descriptor: In<c_void>,
                );
                cuDestroyExternalMemory(memory: CUobject);
                cuTexObjectCreate(
                    object: Out<c_ulonglong>,
                    resource: In<c_void>,
                    texture: In<c_void>,
                    view: In<c_void>,
                );
                cuTexObjectDestroy(object: c_ulonglong);
                cuTexObjectGetResourceDesc(descriptor: Out<c_void>, object: c_ulonglong);
                cuTexObjectGetResourceViewDesc(descriptor: Out<c_void>, object: c_ulonglong);
                cuSurfObjectCreate(object: Out<c_ulonglong>, resource: In<c_void>);
                cuSurfObjectDestroy(object: c_ulonglong);
                cuSurfObjectGetResourceDesc(descriptor: Out<c_void>, object: c_ulonglong);
            }
        }
    };
}

pub(crate) use for_each_driver_function;
