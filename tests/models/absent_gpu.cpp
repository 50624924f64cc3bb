// A libcuda.so.1 that finds no GPU, so that libraries load that want a driver before they compile
// kernels. Names and codes are the CUDA driver API's.
extern "C" {

int cuInit(unsigned) { return 100; }  // no device

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 0;
  return 0;
}

// Looked up, and not called where there is no device: not initialized.
#define REFUSED(name) \
  int name() { return 3; }

REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuGetErrorName)
REFUSED(cuGetErrorString)
REFUSED(cuKernelGetAttribute)
REFUSED(cuKernelSetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryGetKernel)
REFUSED(cuLibraryLoadData)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLibraryUnload)
REFUSED(cuLinkAddData)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkDestroy)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)
}
