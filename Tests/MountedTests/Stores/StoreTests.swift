// The suite of `StoreTestCase`, store by store.

final class DirectoryStoreTests: StoreTestCase {
  func testPosixHolds() throws { try posixHolds() }
  func testATreeArrivesAsItIs() throws { try aTreeArrivesAsItIs() }
  func testPlaceholdersComeGoAndStay() throws { try placeholdersComeGoAndStay() }
  func testWhatOneDeviceDoesReachesTheOther() throws { try whatOneDeviceDoesReachesTheOther() }
  func testEditsOfBothAreKept() throws { try editsOfBothAreKept() }
  func testAKilledDaemonLosesNothing() throws { try aKilledDaemonLosesNothing() }
  func testUploadsThatFailLoseNothing() throws { try uploadsThatFailLoseNothing() }
  func testFetchesThatFailServeNothingWrong() throws { try fetchesThatFailServeNothingWrong() }
  func testListingsThatFailRemoveNothing() throws { try listingsThatFailRemoveNothing() }
  func testAStormOfRefusalsPasses() throws { try aStormOfRefusalsPasses() }
  func testWorkGoesOnWithoutTheStore() throws { try workGoesOnWithoutTheStore() }
  func testTheStoreGoesAndComesBackWhileMounted() throws { try theStoreGoesAndComesBackWhileMounted() }
}

final class SeaweedFSStoreTests: StoreTestCase {
  override var store: Store { .s3 }
  func testPosixHolds() throws { try posixHolds() }
  func testATreeArrivesAsItIs() throws { try aTreeArrivesAsItIs() }
  func testPlaceholdersComeGoAndStay() throws { try placeholdersComeGoAndStay() }
  func testWhatOneDeviceDoesReachesTheOther() throws { try whatOneDeviceDoesReachesTheOther() }
  func testEditsOfBothAreKept() throws { try editsOfBothAreKept() }
  func testAKilledDaemonLosesNothing() throws { try aKilledDaemonLosesNothing() }
  func testUploadsThatFailLoseNothing() throws { try uploadsThatFailLoseNothing() }
  func testFetchesThatFailServeNothingWrong() throws { try fetchesThatFailServeNothingWrong() }
  func testListingsThatFailRemoveNothing() throws { try listingsThatFailRemoveNothing() }
  func testAStormOfRefusalsPasses() throws { try aStormOfRefusalsPasses() }
  func testWorkGoesOnWithoutTheStore() throws { try workGoesOnWithoutTheStore() }
  func testTheStoreGoesAndComesBackWhileMounted() throws { try theStoreGoesAndComesBackWhileMounted() }
}

final class LighttpdStoreTests: StoreTestCase {
  override var store: Store { .webdav }
  func testPosixHolds() throws { try posixHolds() }
  func testATreeArrivesAsItIs() throws { try aTreeArrivesAsItIs() }
  func testPlaceholdersComeGoAndStay() throws { try placeholdersComeGoAndStay() }
  func testWhatOneDeviceDoesReachesTheOther() throws { try whatOneDeviceDoesReachesTheOther() }
  func testEditsOfBothAreKept() throws { try editsOfBothAreKept() }
  func testAKilledDaemonLosesNothing() throws { try aKilledDaemonLosesNothing() }
  func testUploadsThatFailLoseNothing() throws { try uploadsThatFailLoseNothing() }
  func testFetchesThatFailServeNothingWrong() throws { try fetchesThatFailServeNothingWrong() }
  func testListingsThatFailRemoveNothing() throws { try listingsThatFailRemoveNothing() }
  func testAStormOfRefusalsPasses() throws { try aStormOfRefusalsPasses() }
  func testWorkGoesOnWithoutTheStore() throws { try workGoesOnWithoutTheStore() }
  func testTheStoreGoesAndComesBackWhileMounted() throws { try theStoreGoesAndComesBackWhileMounted() }
}
