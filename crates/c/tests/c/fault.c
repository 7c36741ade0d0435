// A fault of the device, which the emulator finds for a program that sorts memory that it has not written.
#include "check.h"

int main(void) {
    OK(ferrowarp_create(&handle, 0, NULL));
    void *unwritten = NULL;
    OK(ferrowarp_malloc(handle, &unwritten, 4000));
    ferrowarp_status status = ferrowarp_sort(handle, FERROWARP_TYPE_U32, FERROWARP_ORDER_ASCENDING, unwritten, unwritten, 1000);
    if (status == FERROWARP_STATUS_OK)
        status = ferrowarp_synchronize(handle);
    CHECK(status == FERROWARP_STATUS_DEVICE_LOST, "status %d: %s", (int)status, ferrowarp_last_error());
    CHECK(strstr(ferrowarp_last_error(), "uninitialized") != NULL || strstr(ferrowarp_last_error(), "uninitialised") != NULL,
          "the message does not say why: %s", ferrowarp_last_error());
    status = ferrowarp_scan(handle, FERROWARP_TYPE_U32, FERROWARP_OPERATOR_SUM, false, unwritten, unwritten, 0);
    CHECK(status == FERROWARP_STATUS_DEVICE_LOST, "status %d after the fault: %s", (int)status, ferrowarp_last_error());
    CHECK(ferrowarp_destroy(handle) == FERROWARP_STATUS_DEVICE_LOST, "the end of a lost device: %s", ferrowarp_last_error());
    printf("the fault is reported\n");
    return 0;
}
